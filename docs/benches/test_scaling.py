"""Closed forms of scaling.py: python3 -m unittest discover -s docs/benches -p 'test_scaling.py'"""
import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import scaling
from scaling import BRATS, Cluster, INFINIBAND, Link, NVLINK4, PCIE4, Work, exposed_seconds, reduce_seconds, speedup

FAST = Cluster(NVLINK4, INFINIBAND[400])


class Closed(unittest.TestCase):
    def test_one_rank_does_not_communicate(self):
        for overlap in (False, True):
            for cluster in scaling.CLUSTERS:
                self.assertEqual(exposed_seconds(BRATS, 1, cluster, overlap), 0)
                self.assertEqual(speedup(BRATS, 1, cluster, overlap), 1)

    def test_two_ranks_send_each_byte_once(self):
        link = Link("a byte a second", 1 / scaling.REACHED)
        seconds = reduce_seconds(1000, 2, Cluster(link, link))
        self.assertAlmostEqual(seconds, 1000 + 2 * scaling.LATENCY_INSIDE)

    def test_many_ranks_send_each_byte_twice(self):
        link = Link("very slow", 1e-3)
        seconds = reduce_seconds(1, 1_000_000, Cluster(link, link))
        self.assertAlmostEqual(seconds / (2 / (scaling.REACHED * 1e-3)), 1, delta=0.01)

    def test_a_ring_is_as_fast_as_its_slowest_link(self):
        inside = reduce_seconds(1e9, 8, FAST)
        self.assertAlmostEqual(inside, 2 * 7 / 8 * 1e9 / (0.8 * 450e9) + 14 * 5e-6)
        self.assertAlmostEqual(reduce_seconds(1e9, 16, FAST), 2 * 15 / 16 * 1e9 / (0.8 * 50e9) + 30 * 10e-6)

    def test_hosts_add_both_ways(self):
        through = Cluster(NVLINK4, INFINIBAND[400], host=PCIE4)
        more = reduce_seconds(1e9, 8, through) - reduce_seconds(1e9, 8, FAST)
        self.assertAlmostEqual(more, 2e9 / (0.8 * PCIE4.speed))


class Overlap(unittest.TestCase):
    def test_one_bucket_hides_nothing(self):
        work = Work("one", BRATS.parameters, 0.5, 388, measured_buckets=1)
        for count in (2, 8, 32):
            plain, hidden = (exposed_seconds(work, count, FAST, overlap) for overlap in (False, True))
            self.assertAlmostEqual(plain, hidden)

    def test_the_last_bucket_stays(self):
        work = Work("ten", 10 * scaling.BUCKET_BYTES // 4, 1e6, 32)
        last = reduce_seconds(scaling.BUCKET_BYTES, 8, FAST)
        self.assertAlmostEqual(exposed_seconds(work, 8, FAST, True), last)
        self.assertAlmostEqual(exposed_seconds(work, 8, FAST, False), 10 * last)

    def test_without_a_backward_pass_nothing_is_hidden(self):
        work = Work("ten", 10 * scaling.BUCKET_BYTES // 4, 0.0, 32)
        plain, hidden = (exposed_seconds(work, 8, FAST, overlap) for overlap in (False, True))
        self.assertAlmostEqual(plain, hidden)

    def test_bf16_halves_the_bytes(self):
        half = Work("half", 1000, 1.0, 8, wire_bytes=2)
        self.assertEqual(sum(half.buckets()), 2000)


class Epochs(unittest.TestCase):
    def test_steps_are_whole(self):
        self.assertEqual([BRATS.steps(count) for count in (1, 8, 16, 32)], [388, 49, 25, 13])

    def test_free_communication_leaves_whole_steps(self):
        free = Link("free", float("inf"))
        work = Work("even", 1000, 1e9, 64)
        self.assertAlmostEqual(speedup(work, 32, Cluster(free, free), False), 32)

    def test_a_line_goes_through_its_points(self):
        start, share = scaling.start_and_share((8, 20.0), (32, 8.0))
        self.assertAlmostEqual(start + share / 8, 20)
        self.assertAlmostEqual(start + share / 32, 8)


class Runs(unittest.TestCase):
    def test_figures_of_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            summary = Path(folder) / "summary.json"
            waits = [{"phases": {"gradients": {"operations": 20, "bytes": 40 * 1001, "seconds": seconds}}} for seconds in (1.0, 0.5)]
            summary.write_text(json.dumps({"world_size": 2, "epochs": 2, "iterations": 10, "waits": waits}))
            epochs = [json.dumps({"event": "epoch", "seconds": 1.0})] * 2
            (Path(folder) / "log.jsonl").write_text("\n".join(epochs))
            parameters, buckets, step, cases = scaling.of_run(summary)
            self.assertEqual((parameters, buckets, cases), (1000, 2, 10))
            self.assertAlmostEqual(step, 1.0 / 5 - 0.5 / 10)
            with contextlib.redirect_stdout(io.StringIO()) as said:
                scaling.main(["--summary", str(summary)])
            self.assertIn("1,000 parameters, 2 buckets", said.getvalue())

    def test_tables_are_put_between_their_marks(self):
        page = "".join(f"<!-- table: {name} -->\nold\n<!-- end -->\n" for name in scaling.page_tables())
        filled = scaling.fill(page)
        self.assertNotIn("old", filled)
        self.assertEqual(scaling.fill(filled), filled)
        with self.assertRaises(ValueError):
            scaling.fill("no tables")


if __name__ == "__main__":
    unittest.main()
