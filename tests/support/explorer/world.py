"""The world that clients live in: one store, one clock, requests under way; and every step it may take next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.archive.format.commits import COMMITS
from locking.names import Mode
from locking.store import ObjectExists, ObjectNotFound, StoreOutcomeUnknown, StoreUnavailable
from tests.support.explorer.clients import UNDER_A_LOCK, Client, Memory, run
from tests.support.explorer.replay import Answer, Failed, Listed, Question

Objects = tuple[tuple[str, bytes, int], ...]

WRITES = frozenset({"put", "touch", "create", "delete"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is explored.

    :param faults: how many crashes, refused requests (certainly without effect) and late ones (the client is told
        that the outcome is unknown; the request takes effect at any later point, at once, or never)
    :param ticks: so many seconds pass at any point, each at most once, in any order
    :param cuts: a listing of locks reads the names from one cut to the next at once, others act between two reads;
        () reads all at once. Names are those within the lock's folder
    :param ordered: the reads are in key order, and the clients rely on it; else in any order
    :param objects: what is in the store before
    :param kept: nobody ends locks on purpose, so a lock that its holder's clock trusts must stand
    :param progress: in the end somebody must hold the lock
    :param lateness: a renewal under way arrives at most so many seconds after its lock was last ended, or came back
        by another renewal that was late
    :param attached: a process works under the first lock that client 1 took, which is of this mode
    """

    name: str
    clients: tuple[Client, ...]
    crashes: int = 0
    refused: int = 0
    late: int = 0
    ticks: tuple[int, ...] = ()
    cuts: tuple[str, ...] = ()
    ordered: bool = True
    objects: Objects = ()
    kept: bool = True
    progress: bool = False
    attached: Mode | None = None
    lateness: int | None = None


class Node(NamedTuple):
    """A point in a client's program: in a call, after these answers, at this question (None: it has ended)."""

    client: int
    call: int
    memory: Memory
    answers: tuple[Answer, ...]
    question: Question | None


class ClientState(NamedTuple):
    """A client as part of a world.

    :param node: number of its :class:`Node`
    :param stalled: it stands before reading its clock, until time has passed
    :param read: what a listing has read so far, and when it began; None where none is under way
    :param unread: the parts of it that are left
    :param seen: what the store held when it last looked, and when; it sleeps until either changes
    """

    node: int
    alive: bool = True
    stalled: bool = False
    read: Listed | None = None
    unread: tuple[int, ...] = ()
    seen: tuple[Objects, int] | None = None


class World(NamedTuple):
    """A state. Equal worlds have equal futures.

    :param flying: writes whose client was told that nobody knows; they may land or not
    :param left: crashes, refused and late requests that may still happen
    :param written: targets that were PUT
    """

    time: int
    objects: Objects
    clients: tuple[ClientState, ...]
    flying: tuple[Question, ...] = ()
    left: tuple[int, int, int] = (0, 0, 0)
    ticks: tuple[int, ...] = ()
    written: frozenset[str] = frozenset()
    renewed: int = 0
    """When a lock last came back by a renewal, where the scenario asks."""


class Broken(Exception):  # noqa: N818 - named after what happened
    """A step after which a law is broken already; says which."""


Step = tuple[str, World]
"""What happens, in words that differ from every other step of the same world; and the world after it."""

NEVER_IDLE = 1
"""Seconds that pass where all clients sleep."""


@dataclass
class Machine:
    """Takes steps of one scenario; remembers what clients do after which answers."""

    scenario: Scenario
    nodes: list[Node] = field(default_factory=list)
    _numbers: dict[Node, int] = field(default_factory=dict)
    _after: dict[tuple[int, Answer], int] = field(default_factory=dict)

    def start(self) -> World:
        scenario = self.scenario
        world = World(
            time=0,
            objects=tuple(sorted(scenario.objects)),
            clients=(),
            left=(scenario.crashes, scenario.refused, scenario.late),
            ticks=tuple(sorted(scenario.ticks)),
        )
        for number, client in enumerate(scenario.clients):
            memory, world = alone(world, client, client.before)
            world = world._replace(clients=(*world.clients, ClientState(self._first(number, memory))))
        return world

    def steps(self, world: World) -> list[Step]:
        """All that may happen next.

        Who was held up before reading its clock reads it right after time has passed, or else is held up further.
        """
        for number, client in enumerate(world.clients):
            question = self.question(client)
            if question is not None and question.word == "clock" and not client.stalled:
                return list(self._read_clock(world, number))
        steps = [step for number in range(len(world.clients)) for step in self._client_steps(world, number)]
        steps += self._landings(world)
        steps += [
            (f"{seconds} s pass", _pass(world._replace(ticks=_less(world.ticks, index)), seconds))
            for index, seconds in enumerate(world.ticks)
            if seconds not in world.ticks[:index] and self._may_pass(world, seconds)
        ]
        if not steps and self._somebody_sleeps(world):
            steps.append(("all sleep", _pass(world, NEVER_IDLE)))
        return steps

    def question(self, client: ClientState) -> Question | None:
        """What the client waits for; None where it has ended."""
        return self.nodes[client.node].question if client.alive else None

    def memory(self, client: ClientState) -> Memory:
        return self.nodes[client.node].memory

    def call(self, number: int, client: ClientState) -> str:
        """The name of the call the client is in, or ""."""
        calls = self.scenario.clients[number].calls
        position = self.nodes[client.node].call
        return calls[position] if position < len(calls) else ""

    def answered(self, client: ClientState) -> bool:
        """Whether the call the client is in has made a request."""
        return bool(self.nodes[client.node].answers)

    # ---- steps

    def _read_clock(self, world: World, number: int) -> Iterator[Step]:
        yield from self._answered(world, number, f"{_name(number)} goes on", world.time)
        if world.ticks:
            yield f"{_name(number)} stays", _with(world, number, world.clients[number]._replace(stalled=True))

    def _client_steps(self, world: World, number: int) -> Iterator[Step]:
        client = world.clients[number]
        if not client.alive:
            return
        question = self.question(client)
        crashes, refused, late = world.left
        if crashes and (question is not None or self.memory(client).held is not None):
            gone = _with(world, number, ClientState(client.node, alive=False))
            yield f"{_name(number)} dies", gone._replace(left=(crashes - 1, refused, late))
        if question is None or question.word == "clock":
            return
        if question.word == "sleep":
            if client.seen != (world.objects, world.time):
                yield from self._answered(world, number, f"{_name(number)} wakes", None)
        elif question.word == "list":
            yield from self._reads(world, number, question)
        else:
            after, answer = self._effect(world, question)
            yield from self._answered(after, number, f"{_name(number)} {question}", answer)
        if question.word in {"clock", "sleep", "gone"} or client.read is not None:
            return
        if refused:
            fails = world._replace(left=(crashes, refused - 1, late))
            yield from self._answered(fails, number, f"{_name(number)} {question}: refused", Failed(StoreUnavailable))
        if late and question.word in WRITES:
            flying = tuple(sorted((*world.flying, question), key=str))
            flies = world._replace(left=(crashes, refused, late - 1), flying=flying)
            unknown = Failed(StoreOutcomeUnknown)
            yield from self._answered(flies, number, f"{_name(number)} {question}: no answer", unknown)

    def _effect(self, world: World, question: Question) -> tuple[World, Answer]:
        if question.word != "gone":
            after, answer = effect(world, question)
            comes_back = question.word == "touch" and len(after.objects) > len(world.objects)
            if comes_back and self.scenario.lateness is not None:
                after = after._replace(renewed=world.time)
            return after, answer
        alive = {
            str(client.id): state.alive for client, state in zip(self.scenario.clients, world.clients, strict=True)
        }
        return world, not alive[question.key]

    def _reads(self, world: World, number: int, question: Question) -> Iterator[Step]:
        """A listing: at once, or a part of it."""
        client, scenario = world.clients[number], self.scenario
        cuts = scenario.cuts if question.key.startswith("locks/") else ()
        began = client.read or Listed((), world.time)
        unread = client.unread if client.read is not None else tuple(range(len(cuts) or 1))
        for part in unread if not scenario.ordered else unread[:1]:
            found = tuple(
                each for each in world.objects if each[0].startswith(question.key) and _in_part(each[0], cuts, part)
            )
            read = Listed(tuple(sorted((*began.objects, *found))), began.now)
            left = tuple(each for each in unread if each != part)
            label = f"{_name(number)} {question}" + (f" from {cuts[part] or 'the start'}" if cuts else "")
            seen = (world.objects, world.time) if scenario.progress else None
            if left:
                yield label, _with(world, number, client._replace(read=read, unread=left))
            else:
                ended = _with(world, number, client._replace(read=None, unread=(), seen=seen))
                yield from self._answered(ended, number, label, read)

    def _landings(self, world: World) -> Iterator[Step]:
        for index, question in enumerate(world.flying):
            if question not in world.flying[:index]:
                after, _ = self._effect(world, question)
                yield f"late {question} lands", after._replace(flying=_less(world.flying, index))

    def _may_pass(self, world: World, seconds: int) -> bool:
        """Whether no renewal under way would become later than any is."""
        if self.scenario.lateness is None:
            return True
        asked = (self._next_request(each, world.time + seconds) for each in world.clients if each.alive)
        questions = [*world.flying, *(found for found in asked if found is not None)]
        marked = [modified for key, _, modified in world.objects if "/DEAD." in key]
        last = max([world.renewed, *marked])
        under_way = any(question.word == "touch" for question in questions)
        return not under_way or world.time + seconds - last <= self.scenario.lateness

    def _next_request(self, client: ClientState, time: int) -> Question | None:
        """What the client asks next of others than its clock, which it reads at that time."""
        node = client.node
        while (question := self.nodes[node].question) is not None and question.word == "clock":
            node = self._next(node, time)
        return self.nodes[node].question

    def _somebody_sleeps(self, world: World) -> bool:
        return any((found := self.question(client)) is not None and found.word == "sleep" for client in world.clients)

    # ---- clients

    def _answered(self, world: World, number: int, label: str, answer: Answer) -> Iterator[Step]:
        """The client goes on with the answer to its next request.

        Reading one's own clock concerns nobody else, so it happens at once, or else after time has passed:
        then no other order of it and of others' steps needs to be looked at.
        """
        client = world.clients[number]._replace(stalled=False, node=self._next(world.clients[number].node, answer))
        readings = 0
        while (question := self.question(client)) is not None and question.word == "clock":
            readings += 1
            if world.ticks:
                stalled = _with(world, number, client._replace(stalled=True))
                yield f"{label}; held up before reading its clock" + (f" ({readings})" * (readings > 1)), stalled
            client = client._replace(node=self._next(client.node, world.time))
        yield label, _with(world, number, client)

    def _first(self, number: int, memory: Memory) -> int:
        """Where a client makes its first request. What it reads of its clock before begins no lease."""
        node = self._enter(number, 0, memory)
        while (question := self.nodes[node].question) is not None and question.word == "clock":
            node = self._next(node, 0)
        return node

    def _next(self, node: int, answer: Answer) -> int:
        key = (node, answer)
        if (after := self._after.get(key)) is None:
            before = self.nodes[node]
            after = self._go_on(before.client, before.call, before.memory, (*before.answers, answer))
            self._after[key] = after
        return after

    def _enter(self, number: int, call: int, memory: Memory) -> int:
        calls = self.scenario.clients[number].calls
        while call < len(calls) and calls[call] in UNDER_A_LOCK and memory.held is None:
            call += 1
        if call == len(calls):
            return self._number(Node(number, call, memory, (), None))
        return self._go_on(number, call, memory, ())

    def _go_on(self, number: int, call: int, memory: Memory, answers: tuple[Answer, ...]) -> int:
        client = self.scenario.clients[number]
        reached = run(client, client.calls[call], memory, answers, ordered=self.scenario.ordered)
        if isinstance(reached, Memory):
            return self._enter(number, call + 1, reached)
        return self._number(Node(number, call, memory, answers, reached))

    def _number(self, node: Node) -> int:
        if node not in self._numbers:
            self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[node]


def answer_at_once(world: World, question: Question) -> Answer:
    """What a client would get now if nothing came between."""
    if question.word == "clock":
        return world.time
    if question.word == "list":
        return Listed(tuple(each for each in world.objects if each[0].startswith(question.key)), world.time)
    return effect(world, question)[1]


def effect(world: World, question: Question) -> tuple[World, Answer]:
    """What a request does and answers."""
    key = question.key
    there = next((each for each in world.objects if each[0] == key), None)
    if question.word == "get":
        return world, there[1] if there else Failed(ObjectNotFound)
    if question.word == "create" and there:
        return world, Failed(ObjectExists)
    if there and question.word == "put" and key.startswith(COMMITS):
        raise Broken(f"{key} was overwritten")
    others = tuple(each for each in world.objects if each[0] != key)
    if question.word == "delete":
        return world._replace(objects=others), None
    written = world.written
    if question.word == "put" and "/INTENT" not in key and "/DEAD" not in key:
        if key in written:
            raise Broken(f"{key} was written twice")
        written |= {key}
    objects = tuple(sorted((*others, (key, question.body, world.time))))
    return world._replace(objects=objects, written=written), None


def alone(world: World, client: Client, calls: tuple[str, ...], memory: Memory | None = None) -> tuple[Memory, World]:
    """Let a client make these calls while nobody else does anything."""
    here = world

    def ask(question: Question) -> Answer:
        nonlocal here
        if question.word in {"clock", "list"}:
            return answer_at_once(here, question)
        if question.word == "gone":
            return False
        here, answer = effect(here, question)
        return answer

    memory = memory or Memory()
    for call in calls:
        if call in UNDER_A_LOCK and memory.held is None:
            break
        reached = run(client, call, memory, (), ordered=True, ask=ask)
        if not isinstance(reached, Memory):
            raise TypeError(f"{call} ended in a question: {reached}")
        memory = reached
    return memory, here


def _in_part(key: str, cuts: tuple[str, ...], part: int) -> bool:
    if not cuts:
        return True
    name = key.rpartition("/")[2]
    return cuts[part] <= name and (part + 1 == len(cuts) or name < cuts[part + 1])


def _pass(world: World, seconds: int) -> World:
    clients = tuple(client._replace(stalled=False) for client in world.clients)
    return world._replace(time=world.time + seconds, clients=clients)


def _with(world: World, number: int, client: ClientState) -> World:
    return world._replace(clients=(*world.clients[:number], client, *world.clients[number + 1 :]))


def _less(items: tuple, index: int) -> tuple:  # type: ignore[type-arg]
    return (*items[:index], *items[index + 1 :])


def _name(number: int) -> str:
    return f"client {number + 1}"
