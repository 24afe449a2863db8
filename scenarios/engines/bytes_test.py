#!/usr/bin/env python3
"""What bytes.py must notice, by recordings that are made up."""

import importlib.util
import json
import pathlib
import unittest

SPEC = importlib.util.spec_from_file_location("engine_bytes", pathlib.Path(__file__).with_name("bytes.py"))
JUDGE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(JUDGE)

MILLION = 1_000_000


def flow(name, source, destination, size):
    ends = {"source": source, "destination": destination}
    what = {"type": "flow_request", "job": "j", "flow": name, "connection": ends, "bytes": size}
    return {"at_ns": 0, "from": "application a", "what": what}


def connection(source, destination, delivered):
    ends = {"source": source, "destination": destination}
    what = {"type": "connections", "connections": [{"connection": ends, "delivered_bytes": delivered}]}
    return {"at_ns": 1, "from": "agent", "what": what}


class Bytes(unittest.TestCase):
    # Two workers send to a third, by the ports of both ends.
    FLOWS = [flow("1", "10.0.0.1:4001", "10.0.0.3:6700", MILLION), flow("2", "10.0.0.2:4002", "10.0.0.3:6700", MILLION)]
    SEEN = [connection("10.0.0.1:4001", "10.0.0.3:6700", MILLION), connection("10.0.0.2:4002", "10.0.0.3:6700", MILLION)]

    def wrong(self, records):
        return JUDGE.judge(map(json.dumps, records))[1]

    def test_what_is_so_is_right(self):
        # The other direction, one within a host, and one of another service are none of its business.
        others = [
            connection("10.0.0.3:6700", "10.0.0.1:4001", MILLION),
            connection("10.0.0.3:5000", "10.0.0.3:6700", MILLION),
            connection("10.0.0.1:5001", "10.0.0.2:2181", MILLION),
        ]
        self.assertEqual(self.wrong(self.FLOWS + self.SEEN + others), [])

    def test_a_connection_that_is_not_declared_is_missed(self):
        more = connection("10.0.0.1:4003", "10.0.0.3:6700", MILLION)
        self.assertIn("aren't declared", " ".join(self.wrong(self.FLOWS + self.SEEN + [more])))

    def test_a_flow_without_a_connection_is_invented(self):
        more = flow("3", "10.0.0.9:4003", "10.0.0.3:6700", MILLION)
        self.assertIn("is on no connection", " ".join(self.wrong(self.FLOWS + [more] + self.SEEN)))

    def test_pairs_that_differ_do_not_cancel(self):
        flows = [
            flow("1", "10.0.0.1:4001", "10.0.0.3:6700", MILLION // 2),
            flow("2", "10.0.0.2:4002", "10.0.0.3:6700", MILLION * 3 // 2),
        ]
        self.assertEqual(self.wrong(flows + self.SEEN), ["a: a pair differs by more than 20%"])

    def test_sums_that_differ(self):
        flows = [flow("1", "10.0.0.1:0", "10.0.0.3:6700", MILLION * 11 // 10)]
        self.assertEqual(self.wrong(flows + self.SEEN[:1]), ["a: the sums differ by more than 2%"])

    def test_nothing_is_wrong_too(self):
        self.assertEqual(self.wrong(self.SEEN), ["nothing is declared"])
        self.assertEqual(self.wrong(self.FLOWS), ["no flow of a was found among the connections"])


if __name__ == "__main__":
    unittest.main()
