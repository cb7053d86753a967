"""The engine as a rung: `single_shot`, `agentic` and `oracle`, through the library's public front.

A question gives one pack a budget. The run file takes the pack of the largest budget, then the fused
candidates that did not fit. A model other than the built-in planner is asked once, at the largest
budget; the smaller packs replay its exchange.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentloop import Environment, Policy, compress_sync, make_request
from agentloop.errors import AgentloopError, ErrorCode
from agentloop.loop.brains import open_model
from agentloop.loop.planner import BuiltinPlanner
from agentloop.loop.replay import RecordingModel, ReplayModel
from agentloop.request import Strategy, TaskType
from eval.answers import Answer, PackFacts, Piece
from eval.golden import Lane, LineSpan, Question
from eval.material import Material
from eval.packcheck import Originals, check_pack
from eval.rungs.options import EngineOptions
from eval.rungs.oracle import OracleModel

if TYPE_CHECKING:
    from agentloop.loop import ChatModel
    from agentloop.pipeline import Outcome

MEANT = [s for s in Strategy if s is not Strategy.GIT_DIFF_HISTORY]  # golden sets have no history
REF = re.compile(r'"ref": ?"(c\d+)"')
COULD_NOT_SCORE = frozenset(
    {
        ErrorCode.MODEL_UNAVAILABLE,
        ErrorCode.TIMED_OUT,
        ErrorCode.INTERNAL,
        ErrorCode.REQUEST_INVALID,  # an unknown model, a recording that isn't there
    }
)


class EngineRung:
    """Asks the engine over one group's corpus."""

    def __init__(self, mode: str, material: Material, options: EngineOptions) -> None:
        self.mode, self.material, self.options = mode, material, options
        self.documents = DocumentIds(material)
        self.originals = Originals(material)
        self.environment = _environment(options)

    def ask(self, question: Question) -> Answer:
        """One request a budget, the largest first.

        An error of the engine is the answer's `error` when nothing was decided by the retrieval (a model
        that failed, time that ran out); else it is an empty answer, which scores zero.
        """
        budgets = sorted(self.options.budgets, reverse=True)
        packs: list[PackFacts] = []
        first: Outcome | None = None
        seconds = 0.0
        try:
            for budget in budgets:
                started = time.monotonic()
                outcome = self._compress(question, budget, again=first is not None)
                if first is None:
                    first, seconds = outcome, time.monotonic() - started
                packs.append(self._facts(outcome, budget))
        except AgentloopError as error:
            told = f"{error.code}: {error.message}"
            if error.code in COULD_NOT_SCORE or first is not None:
                return Answer(question.qid, error=told)
            return Answer(question.qid, notes={"engine_error": told})
        return self._answer(question, first, packs, seconds)

    def _answer(
        self, question: Question, first: Outcome | None, packs: Sequence[PackFacts], seconds: float
    ) -> Answer:
        assert first is not None  # there is at least one budget  # noqa: S101
        retrieval = first.released["payload"]["retrieval"]
        usage = first.loop.usage if first.loop else None
        sent, wrote = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
        codes = [w["code"] for w in first.released["payload"].get("warnings", ())]
        if "MODEL_UNAVAILABLE" in codes and self.mode == "agentic":
            return Answer(question.qid, error="MODEL_UNAVAILABLE: the model failed in the loop.")
        return Answer(
            qid=question.qid,
            pieces=packs[0].pieces,
            tail=tuple(self._tail(first)),
            packs=tuple(packs),
            seconds=seconds,
            calls=int(retrieval.get("tool_calls", 0)),
            turns=int(retrieval.get("turns", 0)),
            tokens=packs[0].tokens,
            model_tokens=sent + wrote,
            cost=(sent * self.options.price[0] + wrote * self.options.price[1]) / 1e6,
            notes={"stop": retrieval.get("stop_reason", ""), "warnings": codes, "calls": self._calls(first)},
        )

    def _compress(self, question: Question, budget: int, *, again: bool) -> Outcome:
        material = self.material
        logs = material.lane is Lane.LOGS
        task = self.options.task or (TaskType.SUMMARIZE_LOGS if logs else TaskType.RAG_COMPRESS)
        mode = "single_shot" if self.mode == "single_shot" else "agentic"
        request = make_request(
            question.text,
            [material.path],
            task=task,
            baselines=[material.baseline] if material.baseline else (),
            task_params={
                "mode": mode,
                "max_tool_calls": self.options.max_tool_calls,
                **({"retrieval_strategies": MEANT} if self.options.embeddings_profile else {}),
            },
            constraints={"final_evidence_pack_budget": budget},
        )
        with self._model(question, again) as model:
            return compress_sync(request, replace(self.environment, model=model))

    @contextmanager
    def _model(self, question: Question, again: bool) -> Iterator[ChatModel | None]:
        """The brain of one request; `again` is a smaller pack of a question that was asked already."""
        name = f"{hashlib.sha256(question.qid.encode()).hexdigest()[:24]}.jsonl"
        options = self.options
        tape = options.replay if options.replay is not None else options.record
        if self.mode == "oracle":
            yield OracleModel(question)
        elif self.mode == "single_shot" or tape is None:
            yield None
        elif again or options.replay is not None:
            yield ReplayModel(tape / name)
        elif options.model in {None, "builtin"}:
            yield RecordingModel(BuiltinPlanner(question.text, options.max_tool_calls), tape / name)
        else:
            from broker.commands.settings import model_places, settings

            with open_model(options.model, model_places(settings()), tape / name) as model:
                yield model

    def _facts(self, outcome: Outcome, budget: int) -> PackFacts:
        released = outcome.released
        fused = {doc: rank for rank, doc in enumerate(self._tail(outcome))}
        pieces = tuple(self._piece(item, fused) for item in released["payload"]["evidence"])
        checked = check_pack(released, self.originals)
        return PackFacts(
            budget=budget,
            tokens=int(released["payload"]["budget"]["final_pack_tokens"]),
            pieces=pieces,
            refs=checked.refs,
            refs_ok=checked.refs_ok,
            claims=len(pieces),
            supported=checked.supported,
        )

    def _piece(self, item: dict[str, Any], fused: Mapping[str, int]) -> Piece:
        """An evidence item. A ref over a run of records names the best ranked one first: the others are
        its neighbours, which a ref names in the order of the source."""
        docs: dict[str, None] = {}
        lines: list[LineSpan] = []
        decisive = 0
        for ref in item["source_refs"]:
            first, last = int(ref["line_start"]), int(ref["line_end"])
            found = self.documents.of(ref.get("path", ""), first, last, ref.get("record_ids", ()))
            docs.update(dict.fromkeys(sorted(found, key=lambda doc: fused.get(doc, len(fused)))))
            decisive = decisive or len(docs)
            if self.material.lane in {Lane.FILES, Lane.LOGS}:
                lines += [LineSpan(doc, first, last) for doc in found]
        return Piece(
            docs=tuple(docs),
            tokens=int(item.get("tokens", 0)),
            decisive=decisive,
            lines=tuple(lines),
            confidence=float(item.get("confidence", 0)),
            relevance=float(item.get("relevance", 0)),
        )

    def _tail(self, outcome: Outcome) -> Iterable[str]:
        """Documents of the fused candidates, best first."""
        found: dict[str, None] = {}
        for candidate in outcome.ranking.candidates:
            for number in (candidate.chunk, *candidate.joined):
                found.update(dict.fromkeys(self._chunk(outcome, number)))
        return found

    def _calls(self, outcome: Outcome) -> list[dict[str, Any]]:
        """What the loop asked for, and the documents that each call brought, for the table of causes."""
        if outcome.loop is None:
            return []
        asked: dict[str, dict[str, Any]] = {}
        for message in outcome.loop.trace.get("messages", ()):
            for call, tool, arguments in message.get("tool_calls", ()):
                asked[call] = {"tool": tool, "argument": arguments, "docs": []}
            found = asked.get(message.get("tool_call_id", ""))
            if found is not None:
                refs = dict.fromkeys(REF.findall(message["content"]))
                chunks = [int(ref[1:]) for ref in refs if int(ref[1:]) < len(outcome.chunks)]
                found["docs"] = list(dict.fromkeys(d for c in chunks for d in self._chunk(outcome, c)))
        return list(asked.values())

    def _chunk(self, outcome: Outcome, number: int) -> tuple[str, ...]:
        chunk = outcome.chunks[number]
        file = outcome.corpus.files[chunk.file]
        items = file.derived.items[chunk.first_item : chunk.last_item + 1] if file.derived else ()
        records = [item.record_id for item in items]
        return self.documents.of(file.path, chunk.line_start, chunk.line_end, records)


def _environment(options: EngineOptions) -> Environment:
    """The engine's surroundings: the models that the options name, in the operator's profiles. What they
    give is kept in the operator's cache, records included: a golden set asks of the same texts again.

    Raises:
        AgentloopError: REQUEST_INVALID, no such profile.
    """
    if not options.embeddings_profile and not options.rerank_profile:
        return Environment()
    from agentloop.loop.semantic import open_embedder, open_reranker
    from broker.commands.environment import private_cache
    from broker.commands.settings import model_places, settings

    found = settings()
    places = model_places(found)
    embeddings, rerank = options.embeddings_profile, options.rerank_profile
    return Environment(
        policy=Policy(cache_records=True),
        cache=private_cache(found),
        embedder=open_embedder(embeddings, places) if embeddings else None,
        reranker=open_reranker(rerank, places) if rerank else None,
    )


class DocumentIds:
    """From a path and lines of the engine's input to document ids of the golden set.

    The records file that was written for a group holds one record a line, so lines name records; in an
    export the engine names the messages itself.
    """

    def __init__(self, material: Material) -> None:
        self.material = material
        self.records: list[str] = []
        if material.lane is Lane.RECORDS:
            with material.path.open(encoding="utf-8") as lines:
                self.records = [str(json.loads(line)["id"]) for line in lines]

    def of(self, path: str, first: int, last: int, records: Sequence[str]) -> tuple[str, ...]:
        """The documents that lines `first..last` of `path` belong to; `records` as the engine names them."""
        if self.material.lane is Lane.EXPORT:
            return tuple(dict.fromkeys(records))
        if self.material.lane is Lane.RECORDS:
            return tuple(self.records[first - 1 : last])
        if self.material.single:
            # a baseline's lines are no lines of the failing log
            return (self.material.single,) if path == self.material.path.name else ()
        return (path,)
