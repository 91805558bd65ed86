"""An election service and its clients: sessions that expire by the service's clock, and by the client's own.

Modelled after ZooKeeper. The service knows nothing of a client but its beats, and grants the first of all sessions. A
client that receives no answer to its beats is in doubt, and has lost its session once the lease has passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.errors import ExternalError
from headrace.leadership.elector import Elected, InDoubt, Leader, Lost

if TYPE_CHECKING:
    from sim.leaders.cluster import Cluster
    from sim.leaders.coordinator import Coordinator
    from sim.replayed import Answer

BEATS_PER_LEASE = 5
DOUBT_BEATS = 2


class Election:
    """The service."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._lease_ms = cluster.story.lease_ms
        self._sessions: dict[str, int] = {}
        """Session -> when its last beat came, in order of their candidacy."""
        self.elected: dict[str, int] = {}
        """Session -> its place in the order of those that were elected."""
        self.published: Leader | None = None
        self.stands_still_until_ms = 0
        self._expire()

    @property
    def is_still(self) -> bool:
        """Whether it answers nobody now."""
        return self._world.now_ms < self.stands_still_until_ms

    def beat(self, session: str) -> tuple[bool, bool]:
        """A beat of a session: whether the session is known, and whether it is elected."""
        if session not in self._sessions:
            return False, False
        self._sessions[session] = self._world.now_ms
        return True, self.is_first(session)

    def is_first(self, session: str) -> bool:
        """Whether a session is elected now."""
        if next(iter(self._sessions), None) != session:
            return False
        # nobody else was since it is the first: others learn later that they are
        self.elected.setdefault(session, len(self.elected))
        return True

    def join(self, session: str) -> None:
        """A new candidate."""
        self._sessions[session] = self._world.now_ms

    def leave(self, session: str) -> None:
        """A candidate gives up."""
        self._sessions.pop(session, None)

    def publish(self, session: str, leader: Leader) -> None:
        """A candidate that was elected says where it is: what it says lives as long as its session."""
        if session in self._sessions:
            self.published = leader

    def _expire(self) -> None:
        now_ms = self._world.now_ms
        if self.is_still:
            # while it stands still no session expires, and when it goes on each has a whole lease
            self._sessions = dict.fromkeys(self._sessions, self.stands_still_until_ms)
        self._sessions = {name: at_ms for name, at_ms in self._sessions.items() if now_ms - at_ms < self._lease_ms}
        self._world.after(200, self._expire)


class Session:
    """One coordinator's client. Events go to the coordinator, which may be suspended meanwhile."""

    def __init__(self, coordinator: Coordinator, election: Election, lease_ms: int) -> None:
        self.name = coordinator.name
        self._coordinator = coordinator
        self._election = election
        self._lease_ms = lease_ms
        self._joined = self._elected = self._in_doubt = self._over = False
        self._answered_ms = coordinator.world.now_ms
        self._beat()

    @property
    def place(self) -> int:
        """Its place in the order of elections; it was elected."""
        return self._election.elected[self.name]

    def publish(self, leader: Leader) -> None:
        """Publishes the coordinator's address, again and again until the election has it."""
        if self._over or self._election.published == leader:
            return
        self._call(lambda: self._election.publish(self.name, leader))
        self._coordinator.after(self._lease_ms // BEATS_PER_LEASE, lambda: self.publish(leader))

    def close(self) -> None:
        """Gives up."""
        self._over = True
        self._call(lambda: self._election.leave(self.name))

    def ask(self, answer: Answer) -> None:
        """Asks the service whether this session is elected; answers an error after a lease if it does not answer."""
        coordinator, world = self._coordinator, self._coordinator.world

        def arrive() -> None:
            elected = self._election.is_first(self.name)
            world.after(world.delay_ms(), lambda: coordinator.deliver(lambda: answer(elected)))

        if coordinator.is_cut_from_election or self._election.is_still:
            error = ExternalError("the election does not answer", retry=True)
            coordinator.after(self._lease_ms, lambda: answer(error))
        else:
            world.after(world.delay_ms(), arrive)

    def _call(self, action: object) -> None:
        assert callable(action)
        coordinator = self._coordinator
        if not (coordinator.is_cut_from_election or self._election.is_still):
            coordinator.world.after(coordinator.world.delay_ms(), action)

    def _beat(self) -> None:
        if self._over:
            return
        coordinator, world = self._coordinator, self._coordinator.world
        self._judge(world.now_ms)
        if self._over:
            return
        self._call(self._arrive)
        coordinator.after(self._lease_ms // BEATS_PER_LEASE, self._beat)

    def _arrive(self) -> None:
        """At the service."""
        if self._election.is_still:
            return
        if not self._joined:
            self._joined = True
            self._election.join(self.name)
        known, elected = self._election.beat(self.name)
        world = self._coordinator.world
        if not self._coordinator.is_cut_from_election:
            world.after(world.delay_ms(), lambda: self._coordinator.deliver(lambda: self._answered(known, elected)))

    def _answered(self, known: bool, elected: bool) -> None:
        if self._over:
            return
        if not known:
            self._lose("its session has ended")
            return
        self._answered_ms = self._coordinator.world.now_ms
        if elected and (self._in_doubt or not self._elected):
            self._elected, self._in_doubt = True, False
            self._coordinator.on_election(Elected())
        elif self._elected and not elected:
            self._lose("another session is the first")

    def _judge(self, now_ms: int) -> None:
        """By the client's own clock."""
        silent_ms = (now_ms - self._answered_ms) // self._coordinator.trust
        if self._elected and silent_ms >= self._lease_ms:
            self._lose("no answer for the time of a session")
        elif self._elected and not self._in_doubt and silent_ms >= DOUBT_BEATS * self._lease_ms // BEATS_PER_LEASE:
            self._in_doubt = True
            self._coordinator.on_election(InDoubt("no answer"))

    def _lose(self, reason: str) -> None:
        self._over = True
        self._coordinator.on_election(Lost(reason))
