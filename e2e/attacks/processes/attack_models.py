"""Model files that a tenant or a mirror puts in the place of the advisor's."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.target import Target


def _classify(target: Target, folder: Path, model: Path) -> subprocess.CompletedProcess[str]:
    """The advisor's answer about a calm path by a model."""
    trace = folder / "trace.csv"
    rows = (f"{number * 0.05:.6f},{60 + number % 7 / 10:.4f}" for number in range(300))
    trace.write_text("\n".join(["send_time_s,rtt_ms", *rows]) + "\n")
    command = [str(target.advisor), "classify", str(trace), "--model", str(model)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def _released(target: Target) -> Path:
    """The model that the attacked checkout ships."""
    installed = target.root / "images" / "advisor" / "fairlead_advisor" / "models" / "installed"
    return sorted(installed.glob("background-*/model.onnx"))[-1]


def _write(folder: Path, content: bytes, digest: str | None = None) -> Path:
    model = folder / "model.onnx"
    model.write_bytes(content)
    (folder / "model.onnx.sha256").write_text(f"{digest or hashlib.sha256(content).hexdigest()}  model.onnx\n")
    return model


def _spoiled(target: Target, folder: Path, judge: Judge, spoil: Callable[[Any], None]) -> None:
    """Concludes from a model that was changed after training, with a fitting digest."""
    proto = onnx.load_model_from_string(_released(target).read_bytes())
    spoil(proto)
    answer = _classify(target, folder, _write(folder, proto.SerializeToString()))
    judge(answer.returncode != 0 and not answer.stdout.strip(), answer.stderr or answer.stdout)
    _the_released_one_answers(target, folder)


def _the_released_one_answers(target: Target, folder: Path) -> None:
    """The positive control."""
    answer = _classify(target, folder, _write(folder, _released(target).read_bytes()))
    assert answer.returncode == 0 and json.loads(answer.stdout)["version"] == 1, answer.stderr


def _outside(tensor: Any, location: Path) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", str(location)


@gains("reads files of the sidecar through the model")
def attack_with_weights_in_another_file(target: Target, tmp_path: Path, judge: Judge) -> None:
    """A model's weights are said to be in a file outside of it."""
    (tmp_path / "secret").write_bytes(os.urandom(1 << 16))

    def spoil(model: Any) -> None:
        weights = TensorProto(name="stolen", data_type=TensorProto.UINT8, dims=[1 << 16])
        _outside(weights, tmp_path / "secret")
        model.graph.initializer.append(weights)

    _spoiled(target, tmp_path, judge, spoil)


@gains("hides what a model does from its inspection")
def attack_with_a_nested_graph(target: Target, tmp_path: Path, judge: Judge) -> None:
    """A model has a conditional whose branches are graphs of their own."""

    def spoil(model: Any) -> None:
        branch = helper.make_graph([helper.make_node("Identity", ["features"], ["out"])], "branch", [], [])
        model.graph.node.append(helper.make_node("If", ["condition"], ["out"], then_branch=branch, else_branch=branch))

    _spoiled(target, tmp_path, judge, spoil)


@gains("runs code in the sidecar, on the nodes' network")
def attack_with_an_operator_of_ones_own(target: Target, tmp_path: Path, judge: Judge) -> None:
    """A model uses an operator of another domain than ONNX's, as extensions bring them."""

    def spoil(model: Any) -> None:
        model.graph.node.append(helper.make_node("PyOp", ["features"], ["out"], domain="ai.onnx.contrib"))

    _spoiled(target, tmp_path, judge, spoil)


@gains("steers the choice of congestion control")
def attack_with_a_model_of_another_digest(target: Target, tmp_path: Path, judge: Judge) -> None:
    """A model is replaced by another one that works, and its digest file stays."""
    content = _released(target).read_bytes()
    proto = onnx.load_model_from_string(content)
    proto.doc_string = "changed"
    answer = _classify(target, tmp_path, _write(tmp_path, proto.SerializeToString(), hashlib.sha256(content).hexdigest()))
    judge(answer.returncode != 0 and not answer.stdout.strip(), answer.stderr or answer.stdout)
    _the_released_one_answers(target, tmp_path)


@gains("has the sidecar killed for its memory")
def attack_with_a_model_of_a_gigabyte(target: Target, tmp_path: Path, judge: Judge) -> None:
    """A model file has a gigabyte, and one is an endless device."""
    model = _write(tmp_path, _released(target).read_bytes())
    with model.open("r+b") as file:
        file.truncate(1 << 30)
    answer = _classify(target, tmp_path, model)
    judge(answer.returncode != 0 and not answer.stdout.strip(), answer.stderr or answer.stdout)
    model.unlink()
    model.symlink_to("/dev/zero")
    answer = _classify(target, tmp_path, model)
    judge(answer.returncode != 0 and not answer.stdout.strip(), answer.stderr or answer.stdout)
    model.unlink()
    _the_released_one_answers(target, tmp_path)
