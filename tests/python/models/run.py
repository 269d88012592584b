#!/usr/bin/env python3
"""Models of transformers, torchvision and timm through aot_module() beside eager: what they give, gradients of their parameters and what becomes of
their buffers, in train and in eval mode, and language models that generate eight tokens with a cache.

    DIPTYCH_MODELS=out/models/site-packages python tests/python/models/run.py [--only bert,t5] [--list]

Prints, of each model and mode, how many captures and calls of the module itself there were, and how many kinds of calls were refused. Packages that
are absent are left out; without any the status is 77, which ctest calls skipped.
"""
import contextlib
import copy
import io
import pathlib
import sys
import warnings
from functools import partial

sys.path.append(str(pathlib.Path(__file__).parents[1] / "suites"))

import judge  # noqa: E402
import packages  # noqa: E402
import suite  # noqa: E402
import torch  # noqa: E402
from zoo import ZOO, padding, tokens  # noqa: E402

CALLS = 3
GENERATED = 8
STATS = {}  # what was counted, by (name, mode), in the child that judged it


def made(make, training):
    judge.seed(3)
    with contextlib.redirect_stderr(io.StringIO()):
        module, inputs = make()
    return module.double().train(training), inputs


def observe(module, inputs, compiler):
    """What is seen of some calls with different inputs of the same sizes, and of the gradients of all results."""
    call = compiler(module)
    seen = judge.Seen()
    for number in range(CALLS):
        keywords = inputs(number)
        judge.seed(11)
        seen += judge.observe(call, list(module.parameters()), (), keywords, 1, list(module.buffers()), aliases=False)
    return seen


def generate(module, inputs, compiler):
    """Tokens one by one, the likeliest each, with what the model keeps of those before."""
    call = compiler(module)
    seen = judge.Seen()
    with torch.no_grad():
        keywords = {name: value for name, value in inputs(0).items() if name not in ("labels", "use_cache")}
        decoder = module.config.is_encoder_decoder
        given = "decoder_input_ids" if decoder else "input_ids"
        keywords[given] = tokens(1, 1) if decoder else tokens(0)
        cache = None
        for _ in range(GENERATED):
            result = call(**keywords, past_key_values=cache, use_cache=True)
            cache, chosen = result.past_key_values, result.logits[:, -1:].argmax(-1)
            seen.note("scores", result.logits)
            keywords[given] = chosen
            if not decoder:
                keywords["attention_mask"] = torch.cat([keywords["attention_mask"], torch.ones(2, 1, dtype=torch.long)], 1)
    return seen


def judged(make, training, look, dynamic=False):
    module, inputs = made(make, training)
    compiled = []

    def compile(module):
        import diptych

        compiled.append(diptych.aot_module(module, backend=judge.settings.backend, dynamic=dynamic))
        return compiled[0]

    outcome, said = judge.judge(partial(look, copy.deepcopy(module), inputs, lambda module: module), partial(look, copy.deepcopy(module), inputs, compile))
    if not compiled:
        return outcome, said
    stats = compiled[0].stats()
    counted = f"{stats.entries} captures, {stats.hits} hits, {stats.originals} originals, {stats.refusals} refusals"
    reason = stats.last_original if stats.originals else ""
    return ("original" if outcome == "passed" and stats.originals else outcome), f"{counted}. {said}{reason}"


def entry(make, generates):
    for mode in ("train", "eval"):
        yield mode, partial(judged, make, mode == "train", observe)
    if generates:
        yield "generate", partial(judged, make, False, generate)
        yield "generate at dynamic sizes", partial(judged, make, False, generate, dynamic=True)


GENERATES = ("gpt2", "llama", "mixtral", "t5", "bart_with_layer_drop", "whisper")


def entries(options):
    return [(name, partial(entry, make, name in GENERATES)) for name, (package, make) in ZOO.items() if package in FOUND]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    judge.settings.narrow = True  # some compute in float32 whatever they are given
    FOUND = packages.find()
    if not FOUND:
        print("none of", *packages.NAMES, "is there")
        sys.exit(77)
    suite.main("models", __doc__, entries)
