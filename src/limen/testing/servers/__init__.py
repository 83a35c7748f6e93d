"""Real servers to test against: one alone, or a cluster, to hang, kill, cut off and start again."""

from limen.testing.servers.cluster import Cluster
from limen.testing.servers.programs import program
from limen.testing.servers.server import Server
from limen.testing.servers.waiting import wait_for

__all__ = ["Cluster", "Server", "program", "wait_for"]
