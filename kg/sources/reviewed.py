"""The reviewed tables: properties, posts, teams, and which histories of an edition are whole."""

from functools import cache
from typing import NamedTuple

from kg.resources import table
from kg.sources.csvfile import read_lines


class Team(NamedTuple):
    """What a team is."""

    team_class: str  # "club", "national" or "racing"
    instance_of: str  # the Q-id for its P31


@cache
def property_labels() -> dict[str, str]:
    """Return the English label of each property that the reviewed tables use."""
    return {row["property"]: row["label"] for _, row in read_lines(table("properties.csv"), ("property", "label"))}


@cache
def posts() -> dict[tuple[str, str], str]:
    """Return the property of (subject, post); the subject ``*`` stands for every one."""
    rows = read_lines(table("posts.csv"), ("subject", "post", "property"))
    return {(row["subject"], row["post"]): row["property"] for _, row in rows}


@cache
def teams() -> dict[str, Team]:
    """Return class and P31 of each team by label."""
    rows = read_lines(table("teams.csv"), ("label", "class", "instance_of", "instance_of_label"))
    return {row["label"]: Team(row["class"], row["instance_of"]) for _, row in rows}


@cache
def extracts(edition: str) -> frozenset[tuple[str, str]]:
    """Return the facts, (subject, property), of which an edition holds only an extract."""
    columns = ("edition", "subject", "property", "earlier", "missing", "reason")
    rows = read_lines(table("extracts.csv"), columns)
    return frozenset((row["subject"], row["property"]) for _, row in rows if row["edition"] == edition)


@cache
def team_classes() -> dict[str, str]:
    """Return the class of a team, "club", "national" or "racing", by the id of what it is an instance of."""
    rows = read_lines(table("team-classes.csv"), ("item", "label", "class"))
    return {row["item"]: row["class"] for _, row in rows}
