"""What a policy is told. Jobs, flows, hosts and links are numbers; Network has their names.

Sizes are payload in bytes, times seconds since the run began. The first eight are what applications declare, the
others what instruments measure; where both speak of the same, the measured is so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class JobStart:
    """A job registers. application: the name of whose it is; empty where none was given."""

    job: int
    application: str


@dataclass(frozen=True, slots=True)
class JobTerms:
    """What a job asks for. deadline: seconds from its start to its end; weight: at least 1."""

    job: int
    objective: str | None
    deadline: float | None
    weight: int


@dataclass(frozen=True, slots=True)
class JobComplete:
    """A job unregisters; what it still had in the network is forgotten."""

    job: int


@dataclass(frozen=True, slots=True)
class TaskHost:
    """A map or reduce task was launched on a host."""

    job: int
    task: int
    host: int


@dataclass(frozen=True, slots=True)
class Size:
    """A map finished. reduces: each reduce task with the bytes that it will fetch from this map."""

    job: int
    map: int
    reduces: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class FlowRequest:
    """A transfer begins. size: payload in bytes; None where it never ends."""

    job: int
    flow: int
    src: int
    dst: int
    size: int | None


@dataclass(frozen=True, slots=True)
class FlowComplete:
    """A transfer ended."""

    job: int
    flow: int


@dataclass(frozen=True, slots=True)
class StreamSample:
    """A stream: payload that reached its receiver since it began, that waits at the sender or is on its way, and that
    arrived and waits to be processed."""

    flow: int
    delivered: int
    sender_queue: int
    receiver_queue: int


@dataclass(frozen=True, slots=True)
class Streams:
    """How streams stand. declared: an application says so; else agents saw it."""

    samples: list[StreamSample]
    declared: bool


@dataclass(frozen=True, slots=True)
class LinkState:
    """A link failed or returned; the network already shows it."""

    link: int
    up: bool


@dataclass(frozen=True, slots=True)
class Capacity:
    """Links have another capacity; the network already shows it."""

    links: list[int]


@dataclass(frozen=True, slots=True)
class Opened:
    """A flow's connection is there."""

    flow: int
    src: int
    dst: int


@dataclass(frozen=True, slots=True)
class Closed:
    """A flow's connection is gone."""

    flow: int


@dataclass(frozen=True, slots=True)
class Carried:
    """What each open flow has sent through the first switch of its path, bytes."""

    flows: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Delivered:
    """What of each flow has reached its receiver, payload in bytes."""

    flows: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Round trips of flows, seconds."""

    flows: list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Congested:
    """The port before a link became congested, or more so, or recovered. queue: frame bytes that wait there."""

    link: int
    severity: Literal["recovered", "low", "medium", "high"]
    queue: int


@dataclass(frozen=True, slots=True)
class QueueLength:
    """A port at a regular report: frame bytes that wait, and that came since the report before."""

    link: int
    queue: int
    sent: int


@dataclass(frozen=True, slots=True)
class Ports:
    """Counters of ports: links with the frame bytes that each has sent, whoever's they are."""

    ports: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Tick:
    """The deadline of the policy has come."""


Event = (
    JobStart
    | JobTerms
    | JobComplete
    | TaskHost
    | Size
    | FlowRequest
    | FlowComplete
    | Streams
    | LinkState
    | Capacity
    | Opened
    | Closed
    | Carried
    | Delivered
    | RoundTrips
    | Congested
    | QueueLength
    | Ports
    | Tick
)
