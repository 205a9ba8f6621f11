"""The threat model as a page: `python -m docs.operations.threats` writes threats.md from the table of knowledge.

What parties see, which coalitions break a claim and what is left come from `tacit.accounting.knowledge`. The threats
below name the test that tries each of them. A test compares the page with what this file makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from docs.tables import FOLDER, csv_text

from tacit.accounting.knowledge import KINDS, PARTIES, SEES, SURFACES, breaches, remaining
from tacit.accounting.wording import shown_up

PAGE: Final = Path(__file__).with_suffix(".md")
EXAMPLE: Final[Mapping[str, Any]] = {
    "states": 2,
    "actions": 2,
    "horizon": 2,
    "stages": 1,
    "target": 1000,
    "least": 1000,
}
COALITIONS: Final[Sequence[tuple[tuple[str, ...], int]]] = (
    (("network", "operator"), 0),
    (("learner",), 0),
    (("shuffler",), 0),
    (("mixer",), 0),
    (("issuer",), 0),
    (("learner", "device"), 1),
    (("learner", "device"), 100),
    (("learner", "network"), 0),
    (("shuffler", "issuer"), 0),
    (("shuffler", "mixer"), 0),
    (("learner", "mixer"), 0),
    (("learner", "issuer"), 0),
    (("learner", "shuffler"), 0),
    (("learner", "shuffler", "mixer"), 0),
)
"""Coalitions of the example, and how many devices they have."""

INTRODUCTION: Final = """# Threat model: parties, coalitions and attacks

<!-- Written by `python -m docs.operations.threats` from tacit.accounting.knowledge: change those, and run it. -->

The threat model lists what each party of a study sees, which coalitions break the privacy claim, and how each attack is
answered. This page and the line about collusion on every certificate are generated from the same table.
`chaos/row_knowledge.py` tests the table: it runs two histories that differ in one report through real processes,
records everything that each party can read, and searches it for differences and for the report.

## Parties and trust assumptions

| party | assumption |
|---|---|
| device | protects its owner, may lie |
| shuffler (curator under central trust) | follows the protocol; under local trust it may deviate |
| learner | curious |
| issuer | knows names; does not make up people |
| operator | reads logs, metrics, status and the dashboard |
| network, backups | hostile |

The protected value is what one person reported. The issuer knows *that* a person took part, and so does the shuffler,
by address.
"""

NOT_EXISTING: Final = """*plain* is a study of files, *sealed* are services under shuffle trust, *mixed* adds a mixer.
Under central and local trust a report travels in an envelope that is encrypted to the shuffler. A study of files has
no listeners."""

EVERYTHING: Final = """Times, sizes, keys, addresses, logs, metrics and databases are in {download}`the full table
<../tables/knowledge.csv>`."""

LIMITS: Final = """Not compared, and not claimed to be equal: the duration of requests, memory and CPU of processes,
and polling intervals. Not recorded: memory, swap and core dumps, logs of proxies, what browsers keep, and a second
stage. Credentials and bearer secrets need TLS or a private network."""

TOGETHER: Final = """Under shuffle trust a coalition that makes up all reports of a stage but one leaves that person
with the noise of one device. The shuffler can always do so, because no message is bound to a token: it can replace
messages of people by its own, and a mixer does not notice. A mixer protects against a shuffler and a learner that
compare what they have seen of an honest stage. The issuer can make up people; with `people = "open"` any party
can."""

REMAINS: Final = """Epsilon that remains for one report of 1,000 people at epsilon 1 (delta 1e-6; local: 0), with
tokens, against coalitions that lie. `inf` means no protection."""

THREATS: Final[Mapping[str, tuple[tuple[str, str, str, str], ...]]] = {
    "Curiosity": (
        (
            "curious learner",
            "releases, and tokens sorted and apart from messages; no address, id or moment of a report",
            "tests/service/test_service_sealing_study.py::test_a_batch_holds_nothing_but_messages",
            "-",
        ),
        (
            "curious shuffler (shuffle trust)",
            "messages are sealed to the learner one by one, bodies have one length",
            "tests/service/test_service_sealing_study.py::test_bodies_have_one_length_whatever_a_person_did",
            "it sees who sends, and when",
        ),
        (
            "order of messages",
            "permuted uniformly by secure randomness",
            "tests/service/test_service_batches.py::test_every_order_of_a_few_messages_is_equally_likely",
            "-",
        ),
        (
            "curious issuer",
            "blind signatures: its transcript fits every token alike",
            "tests/service/test_service_tokens_blind_rsa.py::test_every_transcript_fits_every_signature_by_exactly_one_factor",
            "it knows who asked in which stage",
        ),
        (
            "issuer with one key per person",
            "one document for all devices; a key that was seen stays",
            "tests/service/test_service_tokens.py::test_a_key_that_was_seen_stays",
            "devices that never compare notes, at their first look",
        ),
        (
            "learner that polls the status",
            "counts of `/v1/status` and `/metrics` stand still for a minute",
            "tests/service/test_service_openapi.py::test_whoever_polls_does_not_see_the_moment_of_a_report",
            "it sees the minute, and the moment at which a stage is full",
        ),
        (
            "logs and metrics",
            "words of the program only",
            "tests/service/test_service_shuffler.py::test_nothing_that_somebody_sent_is_in_logs_or_metrics",
            "your proxy's own logs",
        ),
        (
            "a reader of the disk, later",
            "bodies are erased with their stage, pages overwritten",
            "tests/study/test_study_collector.py::test_a_void_stage_leaves_no_bodies_in_any_file",
            "disks that keep old blocks; PostgreSQL's own logs",
        ),
        (
            "parties that share what each of them reads",
            "every coalition opens what the table says, and nothing else",
            "tests/service/test_chaos_knowledge.py::test_every_coalition_opens_what_the_table_says",
            "the coalitions listed above: choose different operators, a mixer, or local trust",
        ),
        (
            "shuffler and learner that compare what they have seen of a stage",
            "the mixer permutes once more under its own key",
            "tests/service/test_service_mixer.py::test_a_mixed_stage_is_taken_as_an_unsealed_one_would_be",
            "all three together",
        ),
        (
            "shuffler and learner that make up all reports but one, against a mixer",
            "the mixer wants a valid token of the stage for each",
            "tests/service/test_service_mixer.py::test_made_up_reports_are_refused_by_a_mixer_that_verifies_tokens",
            "without tokens the two are enough",
        ),
        (
            "a shuffler that replaces reports of real people, or shows one device other keys with the learner's help",
            "-",
            (
                "tests/service/test_service_mixer.py::"
                "test_a_shuffler_that_replaces_the_reports_of_real_people_is_not_found_out"
            ),
            "not detected, with or without a mixer: no message is bound to its token",
        ),
        (
            "keys of learner or mixer that change while a stage is open",
            "the bundle holds the keys of its stage; shuffler and devices refuse others",
            "tests/service/test_service_device.py::test_a_rotation_while_a_stage_is_open_tells_the_learner_nothing",
            "-",
        ),
        (
            "learner or shuffler that asks one person again and again",
            (
                "the device counts what left, before it leaves; refused messages count under local trust; "
                "nothing beyond the claim's unit and the person's cap"
            ),
            "tests/study/test_study_device_budget.py::test_no_more_messages_leave_than_the_unit_has",
            "over one study: another study is another budget",
        ),
        (
            "other accounts on a person's machine",
            "device files are readable by their owner only",
            "tests/study/test_study_device_budget.py::test_what_a_device_keeps_is_for_its_owner_only",
            "the administrator",
        ),
        (
            "made-up people around one person",
            "tokens: at most g per person of the issuer's list; noise of the curator under central trust",
            "tests/service/test_chaos_knowledge.py::test_made_up_people_leave_the_report_of_one",
            'an issuer that makes up people; any party where `people = "open"`',
        ),
        (
            "anything else that differs between two histories",
            "tables, files, logs, metrics, status and traffic of all parties are equal but for what is random",
            "tests/service/test_chaos_knowledge.py::test_neighbouring_histories_look_the_same_to_everybody",
            "durations",
        ),
        (
            "targeted policies and keys",
            "one bundle, chained by digests",
            "tests/study/test_study_learner.py::test_a_bundle_is_made_once_and_the_chain_names_the_one_before",
            "devices that never compare notes",
        ),
    ),
    "Forgery and replay": (
        (
            "forged bundles, releases, keys",
            "Ed25519 with pinned keys; serials only grow",
            "tests/study/test_study_real.py::test_forged_bundles_and_releases_are_refused",
            "pins have to come from elsewhere",
        ),
        (
            "a document of keys that went back",
            "devices remember serials",
            "tests/service/test_service_device.py::test_serials_do_not_go_back",
            "a device that lost its memory",
        ),
        (
            "the same report again",
            "ids are counted once, for the study's life",
            "tests/study/test_study_collector.py::test_a_report_counts_once_and_a_person_once_per_stage",
            "-",
        ),
        (
            "messages moved to another stage",
            "study, stage and key are bound into every seal",
            "tests/service/test_service_sealing_study.py::test_a_sealed_collector_counts_lengths_and_rows_of_another_stage_do_not_open",
            "-",
        ),
        (
            "a shuffler that copies messages",
            "a copied ciphertext refuses the whole batch",
            "tests/service/test_service_batches.py::test_a_copied_message_refuses_the_whole_batch",
            "-",
        ),
        (
            "a forged manifest",
            "digest, count and size are signed and checked",
            "tests/service/test_service_batches.py::test_a_forged_manifest_is_refused",
            "-",
        ),
        (
            "one token, many requests",
            "counted once by the database",
            "tests/service/test_service_tokens.py::test_one_token_raced_by_a_hundred_requests_counts_once",
            "-",
        ),
        (
            "tokens expired, foreign, of another stage",
            "one key per stage, verified by shuffler, learner and mixer",
            "tests/service/test_service_tokens.py::test_tokens_expired_foreign_of_another_stage_or_malformed_are_refused",
            "-",
        ),
        (
            "many made-up people",
            "the enrolment list: at most g tokens per person",
            "tests/service/test_service_tokens_issuing.py::test_g_holds_under_concurrency_in_every_stage",
            'as good as the list; `people = "open"` has none',
        ),
    ),
    "Lies and floods": (
        (
            "poisoning",
            "a report is bounded; counts that contradict themselves are quarantined: paid, not used",
            "tests/study/test_study_learner.py::test_flow_is_tested_at_four_sigma",
            "lies that are consistent",
        ),
        (
            "learner with k silent devices",
            "noise of a share of devices (`honest_fraction`)",
            "tests/study/test_study_design.py::test_refused_in_words",
            "beyond that share the certificate is void",
        ),
        (
            "small batches",
            "`least`, checked by device, shuffler and learner; fewer are void",
            "tests/service/test_service_shuffler.py::test_too_few_at_the_end_of_the_window_over_restarts",
            "-",
        ),
        (
            "mutated and oversized bodies",
            "exact lengths, limits while reading, problem documents",
            "tests/service/test_service_shuffler.py::test_mutated_envelopes_are_refused_and_nothing_else",
            "-",
        ),
        (
            "slow senders",
            "a deadline per body, and a bound on slow ones",
            "tests/service/test_service_web.py::test_of_many_slow_bodies_the_slowest_is_given_up",
            "a flood that fills the line: your proxy",
        ),
        (
            "too many at once",
            "429 with Retry-After before any work is done",
            "tests/service/test_service_intake.py::test_overload_is_429_with_a_time_and_passes",
            "the same",
        ),
    ),
    "Accidents": (
        (
            "crash anywhere in a release",
            "one transaction: charge, noise, outbox, commit, scrub",
            "tests/study/test_study_crashes.py::test_an_exit_at_any_edge_leaves_nothing_behind",
            "a crash may waste budget, never view twice",
        ),
        (
            "crash of the worker",
            "every step can be repeated",
            "tests/service/test_service_worker.py::test_killed_at_every_edge_it_comes_to_the_same_end",
            "-",
        ),
        (
            "crash of a device",
            "reports are frozen before they are sent; noise is drawn once",
            "tests/service/test_service_device.py::test_a_crash_after_freezing_sends_the_same_bytes",
            "-",
        ),
        (
            "two processes on one device directory",
            "one report, under a lock",
            "tests/study/test_study_device_budget.py::test_two_processes_on_one_directory_draw_one_report",
            "-",
        ),
        (
            "restored backup of a device",
            "an older state file is refused; an issuer refuses the second token of a stage",
            "tests/study/test_study_device_budget.py::test_an_older_copy_of_the_state_is_refused",
            "a copy of the whole directory without an issuer, or made between token and report; a browser that forgets",
        ),
        (
            "crash of the issuer",
            "signatures are stored before they are sent",
            "tests/service/test_service_tokens_issuing.py::test_a_crash_at_any_edge_neither_loses_nor_doubles",
            "-",
        ),
        (
            "restored backup of the shuffler",
            (
                "heads of a file beside the database, of bundles and of the learner must be in its ledger; "
                "a copy without one stops for good"
            ),
            "tests/service/test_service_restored.py::test_no_restore_at_any_point_gives_a_second_view",
            (
                "database and file restored together, for a learner that shows an older head "
                "([what remains](database.md#restore))"
            ),
        ),
        (
            "restored backup of the issuer",
            "-",
            "-",
            "documented, not detected",
        ),
        (
            "two workers",
            "leases with fencing",
            "tests/service/test_service_leases.py::test_whoever_was_overtaken_writes_nothing",
            "-",
        ),
        (
            "clocks",
            "window ends are stored; a clock set back extends nothing",
            "tests/service/test_service_shuffler.py::test_a_clock_that_jumps_back_extends_no_window",
            "a clock set forward closes early",
        ),
        (
            "keys of the shuffler change",
            "old ones open during their grace",
            "tests/service/test_service_shuffler.py::test_keys_rotate_while_envelopes_arrive",
            "-",
        ),
        (
            "tables of another version",
            "refused",
            "tests/service/test_service_database.py::test_another_version_is_refused_on_postgres",
            "-",
        ),
        (
            "weak randomness",
            "the operating system's; simulation noise is refused for real people",
            "tests/study/test_study_collector.py::test_noise_of_real_people_is_secure",
            "a machine without entropy",
        ),
        (
            "timing of signatures",
            "blinded base, masked exponents, powers in constant time (GMP)",
            "tests/service/test_service_tokens_blind_rsa.py::test_the_power_is_never_taken_of_what_was_sent",
            "remaindering around the powers is not constant time; power supply",
        ),
    ),
}
"""Threat, answer, the test that tries it, where it ends; by section."""


DEVIATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "learner": (
        "the chain of bundles is followed over stages that a device has seen, not over numbers that are left out",
        "learner and shuffler can hand different bundles of one stage to devices that never compare notes",
    ),
    "shuffler": (
        "no message is bound to its token, so a shuffler can replace people's messages by its own",
        "the order of a batch is trusted, unless a mixer permutes again",
        "reports that a shuffler drops are missed only below least",
        "a device cannot see whether its report counts; it sends no other",
        "without tokens, a shuffler that counts what it calls late gets a report too many of a person",
        "under central trust the curator's noise is trusted",
        "a database that is restored with its head file draws again for a learner that shows the older head",
    ),
    "mixer": (
        "a mixer can replace messages by its own, since any party can encrypt to the learner; it reads none",
        "the mixer's order is trusted; without it, the shuffler's order still stands between people and learner",
    ),
    "issuer": (
        "issuer and shuffler can hand a key of their own to devices that see the issuer's keys for the first time",
        "an issuer can make up people; its list is trusted",
        "an issuer that is restored from a backup signs again for people that it has forgotten",
        "an issuer can keep a person out; nothing of that person is sent to the shuffler",
    ),
}
"""What is left of the deviations that tests/service/test_service_deviations.py tries: the limits, by party."""


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in (names, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(names), *lines[1:]])


def sights() -> list[tuple[str, ...]]:
    """What each party sees, surface by surface."""
    rows = []
    for party in PARTIES:
        for surface in SURFACES:
            cell = SEES[party][surface]
            for kind, text in (dict.fromkeys(("all",), cell) if isinstance(cell, str) else cell).items():
                grade, _, what = text.partition(": ")
                rows.append((party, surface, kind, grade, what))
    return rows


def messages() -> str:
    """What each party sees of messages, by kind of study."""
    rows: dict[tuple[str, str], list[str]] = {}
    for party, surface, kind, grade, what in sights():
        if surface == "messages" and grade != "none":
            rows.setdefault((party, what), []).append(kind)
    return table(("party", "messages that it reads", "in"), ((p, what, ", ".join(k)) for (p, what), k in rows.items()))


def smallest() -> str:
    """The smallest coalitions that break a claim."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for kind in KINDS:
        for people in ("issuer", "known", "open"):
            found = [
                "; ".join(" + ".join(one) for one in breaches(kind, people=people, active=active)) for active in (0, 1)
            ]
            found = [one.replace("; ".join(PARTIES), "any party") or "none" for one in found]
            rows.setdefault((kind, *found), []).append(people)
    return table(
        ("kind", "`people`", "by reading", "by lying, too"),
        ((kind, ", ".join(people), *found) for (kind, *found), people in rows.items()),
    )


def left() -> str:
    """The epsilon that remains in an example, by the accountant."""
    from tacit.study.design import plan_study

    made = {
        trust: plan_study(**EXAMPLE, epsilon=1.0, delta=delta, trust=trust, learner=learner).parts().channels[0]  # type: ignore[arg-type]
        for trust, delta, learner in (("central", 1e-6, "auto"), ("local", 0.0, "auto"), ("shuffle", 1e-6, "bucb"))
    }
    rows = []
    for coalition, devices in COALITIONS:
        name = " + ".join(coalition).replace("+ device", f"+ {devices} devices" if devices > 1 else "+ device")
        found = [
            remaining(coalition, made[trust], sealing=sealing, devices=devices)  # type: ignore[arg-type]
            for trust, sealing in KINDS.values()
        ]
        rows.append((name, *(shown_up(epsilon) for epsilon in found)))
    return table(("coalition", *KINDS), rows)


def page() -> str:
    """The whole page."""
    parts = [
        INTRODUCTION,
        "## Messages that each party sees\n",
        f"{messages()}\n\n{NOT_EXISTING}\n",
        f"{EVERYTHING}\n",
        f"{LIMITS}\n",
        "## What breaks the guarantee: coalitions\n",
        f"{TOGETHER}\n",
        f"{smallest()}\n",
        f"{REMAINS}\n",
        f"{left()}\n",
    ]
    for title, rows in THREATS.items():
        shown = [(what, answer, end) for what, answer, _, end in rows]
        parts += [f"## Attacks: {title.lower()}\n", f"{table(('attack', 'answer', 'limit'), shown)}\n"]
    limits = "\n".join(f"- {party}: {limit}" for party, found in DEVIATIONS.items() for limit in found)
    tried = "The test of each row is in {download}`a CSV file <../tables/threats.csv>`."
    tried += " Tests also make each party deviate one step at a time\n(`tests/service/test_service_deviations.py`);"
    tried += " every deviation is detected, or harmless, or one of these limits:"
    parts += ["## Undetected deviations of a party\n", f"{tried}\n\n{limits}\n"]
    return "\n".join(parts)


def tables() -> dict[str, str]:
    """The full tables, by the names of their CSV files."""
    tried = [(title, *row) for title, rows in THREATS.items() for row in rows]
    return {
        "knowledge.csv": csv_text(("party", "surface", "kind", "grade", "what"), sights()),
        "threats.csv": csv_text(("section", "attack", "answer", "test", "limit"), tried),
    }


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    for file, text in tables().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
