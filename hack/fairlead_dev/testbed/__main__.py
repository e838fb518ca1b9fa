"""The command line: `scenarios`, `run`, `validate`, `dataset plan|generate|pack|export`."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fairlead_dev.stopping import exit_code, stoppable
from fairlead_dev.testbed.dataset.pack import export_traces, pack
from fairlead_dev.testbed.dataset.plan import PlannedRun, plan_runs, write_plan
from fairlead_dev.testbed.dataset.specification import DATASETS, Specification
from fairlead_dev.testbed.lab.namespaces import remove_abandoned
from fairlead_dev.testbed.runs.batch import BatchRules, BatchState, Named, generate, in_order, is_recorded, recorder
from fairlead_dev.testbed.runs.packing import Budget, estimate_s
from fairlead_dev.testbed.runs.progress import BatchProgress, duration
from fairlead_dev.testbed.runs.record import MANIFEST, RecordingLab, length_s, record
from fairlead_dev.testbed.runs.speed import bearable_cores
from fairlead_dev.testbed.scenario.load import load_scenario, load_toml, named_scenarios, validated
from fairlead_dev.testbed.validation.measure import FIGURES, comparisons, faults_of, shares, table, write_figures
from fairlead_dev.testbed.validation.scenarios import OVERLAY_1, OVERLAY_1_FIFTH, against_theory, coexistence
from fairlead_dev.wan.emulator import find_program

DEFAULT_BUDGET = Budget(cores=1.5, runs=8)


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code: 0, 1 (failed or disturbed), 2 (bad usage), 130 or 143 (stopped)."""
    options = _parser().parse_args(arguments)
    return exit_code("fairlead-testbed", lambda: int(options.command(options)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fairlead_dev.testbed", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    scenarios = commands.add_parser("scenarios", help="list the scenarios that come with the test bed")
    scenarios.set_defaults(command=_list_scenarios)

    run = commands.add_parser("run", help="run one scenario; needs root")
    run.add_argument("scenario", help="the name of a scenario, or a .toml file")
    run.add_argument("--output", type=Path, required=True, help="the run's folder, written anew")
    run.add_argument("--seed", type=int, help="instead of the scenario's own")
    run.add_argument("--seconds", type=float, help="length of the recording instead of the scenario's own")
    run.set_defaults(command=_run)

    validate = commands.add_parser("validate", help="measure the test bed against theory; needs root and an idle machine")
    validate.add_argument("--folder", type=Path, required=True, help="where the runs and validation.json go")
    validate.add_argument("--minutes", type=float, help="start nothing that would not end by then; go on with the same command")
    validate.add_argument("--keep-disturbed", action="store_true", help="with runs that a busy machine disturbed, marked as such")
    _add_budget(validate)
    validate.set_defaults(command=_validate)

    dataset = commands.add_parser("dataset", help="a labelled set of traces").add_subparsers(required=True, metavar="STEP")
    steps = {
        "plan": ("say what would be recorded and how long it takes", _plan),
        "generate": ("record what is missing; needs root and an idle machine", _generate),
        "pack": ("write the compact data set", _pack),
    }
    for name, (text, command) in steps.items():
        step = dataset.add_parser(name, help=text)
        step.add_argument("specification", help="the name of a data set, or a .toml file")
        if name != "plan":
            step.add_argument("--folder", type=Path, required=True, help="where the runs are")
        else:
            step.add_argument("--output", type=Path, help="write the plan there, a line of JSON per run")
        if name == "pack":
            step.add_argument("--output", type=Path, required=True, help="where the compact data set goes")
        else:
            _add_budget(step)
        if name != "plan":
            step.add_argument("--keep-disturbed", action="store_true", help="with disturbed runs, marked as such: not for training")
        if name == "generate":
            step.add_argument("--minutes", type=float, help="start nothing that would not end by then; go on with the same command")
            step.add_argument("--attempts", type=int, default=3, help="tries for a run that is disturbed [%(default)s]")
        step.set_defaults(command=command)
    export = dataset.add_parser(
        "export", help="write traces as CSV files `<path>__<class>__<seed>.csv`, as `fairlead-advisor evaluate` reads them"
    )
    export.add_argument("dataset", type=Path, help="a folder with a packed data set")
    export.add_argument("--split", required=True)
    export.add_argument("--output", type=Path, required=True)
    export.set_defaults(command=_export)
    return parser


def _add_budget(command: argparse.ArgumentParser) -> None:
    text = f"processor cores to fill with runs [{DEFAULT_BUDGET.cores:g}, less on a slow machine]"
    command.add_argument("--cores", type=float, help=text)
    command.add_argument("--side-by-side", type=int, default=DEFAULT_BUDGET.runs, help="runs at a time [%(default)s]")


def _budget(options: argparse.Namespace) -> Budget:
    return Budget(bearable_cores(DEFAULT_BUDGET.cores, options.cores), options.side_by_side)


def _list_scenarios(_options: argparse.Namespace) -> int:
    for name in named_scenarios():
        scenario = load_scenario(name)
        print(f"{name:24} {length_s(scenario):4.0f} s  {scenario.description}")
    return 0


def _run(options: argparse.Namespace) -> int:
    scenario = load_scenario(options.scenario)
    changes = {"seed": options.seed, "duration_s": options.seconds}
    content = {**scenario.model_dump(mode="json"), **{key: value for key, value in changes.items() if value is not None}}
    scenario = validated(options.scenario, content, type(scenario))
    remove_abandoned()
    print(f"{scenario.name}: about {duration(length_s(scenario))}", file=sys.stderr)
    verdict = stoppable(record(scenario, options.output, RecordingLab(find_program()), 0))
    manifest = json.loads((options.output / MANIFEST).read_text())
    for flow in manifest["flows"]:
        print(f"  {flow['name']:20} {flow['goodput_bps'] / 1e6:8.1f} Mb/s  {', '.join(flow['congestion_controls'])}")
    rtt = manifest["probe"]["rtt_ms"]
    print(f"  RTT min {rtt['min']:.1f}, median {rtt['p50']:.1f}, max {rtt['max']:.1f} ms" if rtt else "  no request was answered")
    for fault in verdict.faults:
        print(f"  disturbed: {fault}", file=sys.stderr)
    return 0 if verdict.good else 1


def _specification(name_or_file: str) -> Specification:
    named = DATASETS / f"{name_or_file}.toml"
    return load_toml(named if named.exists() else Path(name_or_file), Specification)


def _plan(options: argparse.Namespace) -> int:
    plan = plan_runs(_specification(options.specification))
    if options.output:
        write_plan(options.output, plan)
    print(_summary(plan, _budget(options)))
    return 0


def _summary(plan: Sequence[PlannedRun], budget: Budget) -> str:
    splits = Counter(run.split.value for run in plan)
    paths = len({run.path_id for run in plan})
    hours = sum(run.scenario.duration_s for run in plan) / 3600
    parts = ", ".join(f"{split} {count}" for split, count in splits.items())
    seconds = estimate_s([run.scenario for run in in_order(plan)], budget)
    size = f"{len(plan)} runs on {paths} paths ({parts}), {hours:.1f} h of traces"
    return f"{size}; on {budget.cores:g} cores, {budget.runs} at a time: {duration(seconds)}"


def _generate(options: argparse.Namespace) -> int:
    plan = plan_runs(_specification(options.specification))
    budget = _budget(options)
    bench = RecordingLab(find_program())
    remove_abandoned()
    options.folder.mkdir(parents=True, exist_ok=True)
    write_plan(options.folder / "plan.jsonl", plan)
    missing = [run for run in plan if not is_recorded(run, options.folder, disturbed_too=options.keep_disturbed)]
    print(
        f"{len(plan) - len(missing)} of {len(plan)} runs are there. To do: {_summary(missing, budget) if missing else 'nothing'}",
        file=sys.stderr,
    )
    limit_s = None if options.minutes is None else options.minutes * 60
    rules = BatchRules(budget, options.attempts, limit_s, options.keep_disturbed)
    state = stoppable(generate(plan, options.folder, recorder(bench), rules, BatchProgress(len(plan), budget, sys.stderr)))
    return _report(state, len(plan))


def _report(state: BatchState, total: int) -> int:
    for name, faults in state.given_up.items():
        print(f"given up: {name}: {faults}", file=sys.stderr)
    if state.given_up:
        print("Is anything else running on this machine? The same command tries them again.", file=sys.stderr)
        return 1
    if state.done < total:
        print(f"{state.done} of {total} runs are there; go on with the same command", file=sys.stderr)
    return 0


def _pack(options: argparse.Namespace) -> int:
    specification = _specification(options.specification)
    plan = plan_runs(specification)
    manifest = pack(specification, plan, options.folder, options.output, disturbed_too=options.keep_disturbed)
    print(f"{manifest['recorded']} of {manifest['planned']} runs packed into {options.output}")
    return 0


def _export(options: argparse.Namespace) -> int:
    print(f"{export_traces(options.dataset, options.split, options.output)} traces written to {options.output}")
    return 0


def _validate(options: argparse.Namespace) -> int:
    theory = list(against_theory(seconds=15))
    pairs = {"overlay-1-fifth": OVERLAY_1_FIFTH, "overlay-1": OVERLAY_1}
    scenarios = [*theory, *(one for name, path in pairs.items() for one in coexistence(name, path, seconds=40))]
    remove_abandoned()
    options.folder.mkdir(parents=True, exist_ok=True)
    budget = _budget(options)
    limit_s = None if options.minutes is None else options.minutes * 60
    rules = BatchRules(budget, stop_after_s=limit_s, keep_disturbed=options.keep_disturbed)
    progress = BatchProgress(len(scenarios), budget, sys.stderr)
    state = stoppable(generate([Named(one) for one in scenarios], options.folder, recorder(RecordingLab(find_program())), rules, progress))
    kept = len(state.given_up) if options.keep_disturbed else 0
    if state.done + kept < len(scenarios):
        return _report(state, len(scenarios))
    found = list(comparisons(theory, options.folder))
    disturbed = {one.name: faults for one in scenarios if (faults := faults_of(options.folder, one.name))}
    carried = [pair for name in pairs for pair in shares(name, options.folder)]
    write_figures(options.folder / FIGURES, found, carried, disturbed)
    print(table(found))
    for name, faults in disturbed.items():
        print(f"disturbed: {name}: {'; '.join(faults)}", file=sys.stderr)
    for pair in carried:
        names = f"{pair['path']}: {pair['background']} against {pair['foreground']}"
        print(f"{names:42} {pair['background_mbps']:7.1f} / {pair['foreground_mbps']:.1f} Mb/s")
    return 0 if all(one.holds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
