"""What answers cost: the tokens of a run by a file of prices that its user keeps.

No price is shipped and none is stored with answers: a cost is reckoned whenever it is shown, and names its source.
"""

from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Final, NamedTuple

from dyknow.tomlfile import Table, read
from kg.errors import DataError

TEMPLATE: Final = Path(__file__).parent.parent / "data" / "prices.toml"
"""An empty file of prices that tells its own form."""

_MILLION = 1_000_000


class Price(NamedTuple):
    """What a million tokens cost."""

    input: float
    output: float
    currency: str
    source: str
    date: date


class Cost(NamedTuple):
    """What tokens cost, by a price.

    >>> price = Price(2.0, 8.0, "EUR", "https://example.org/prices", date(2024, 1, 31))
    >>> Cost(1.25, price).text
    '1.2500 EUR (by https://example.org/prices of 2024-01-31)'
    """

    amount: float
    price: Price

    @property
    def text(self) -> str:
        """The cost for a reader."""
        return f"{self.amount:.4f} {self.price.currency} (by {self.price.source} of {self.price.date.isoformat()})"


def load_prices(path: Path) -> dict[str, Price]:
    """Return the prices in a TOML file, by model.

    Raises:
        DataError: a key is missing, unknown, or no price; the message names file, line and value.
    """
    top = read(path, "a file of prices")
    return {name: _price(top.table(name, f"the price of {name}")) for name in top.values}


def cost(prices: Mapping[str, Price], names: tuple[str | None, ...], prompt_tokens: int, tokens: int) -> Cost | None:
    """Return what tokens cost by the price of the first of these names that has one; None where none has.

    Args:
        prices: By model.
        names: The model's, the surest first: as the server reports it, as it was asked for.
        prompt_tokens: Of all prompts.
        tokens: Of all answers.

    >>> price = Price(2.0, 8.0, "EUR", "https://example.org/prices", date(2024, 1, 31))
    >>> cost({"m": price}, ("m-2024-01-01", "m"), 500_000, 250_000).amount, cost({}, ("m",), 1, 1)
    (3.0, None)
    """
    price = next((prices[name] for name in names if name and name in prices), None)
    if price is None:
        return None
    return Cost((prompt_tokens * price.input + tokens * price.output) / _MILLION, price)


def _price(table: Table) -> Price:
    table.only(Price._fields)
    if missing := [key for key in ("input", "output", "date") if key not in table.values]:
        raise table.error(f"{table.what} has no {missing[0]!r}.", hint=f"The form: {TEMPLATE}")
    return Price(
        table.number("input", 0.0),
        table.number("output", 0.0),
        table.text("currency"),
        table.text("source"),
        _day(table),
    )


def _day(table: Table) -> date:
    value = table.values["date"]
    if isinstance(value, datetime) or not isinstance(value, date):
        error: DataError = table.error(
            f"'date' is {value!r}, which is no day.", "date", hint="Write date = 2024-01-31."
        )
        raise error
    return value
