"""transformers: losses of small models of many kinds, hidden states and attentions, checkpoints with dropout, and generate()."""
import torch
from harness import STEPS, judge, note_state, program, train
from torch import nn

VOCABULARY, LENGTH = 50, 7
SMALL = dict(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=32)
PLAIN = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)


def tokens(number=0, length=LENGTH):
    return torch.randint(3, VOCABULARY, (2, length), generator=torch.Generator().manual_seed(number))


def pixels(number=0, size=32, batch=2):
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(number))


def of_text(number):
    return dict(input_ids=tokens(number), attention_mask=torch.tensor([[1] * LENGTH, [1] * 5 + [0] * 2]), labels=tokens(number))


def of_one_stream(number):
    return dict(input_ids=tokens(number), labels=tokens(number))


def of_images_and_text(number):
    return dict(input_ids=tokens(number), pixel_values=pixels(number), return_loss=True)


def made(kind, config, options):
    import transformers

    return getattr(transformers, kind)(getattr(transformers, config)(**options))


def loss_of(model, keywords):
    return model(**keywords).loss


def step_of(name, kind, config, options, inputs=of_text, seeds=False):
    """Registers a program: training steps of a small model. seeds: whether it seeds the generator by the clock."""

    def run(way):
        seen = train(way, made(kind, config, options).train(), [(inputs(number),) for number in range(STEPS)], loss_of)
        return seen[:-1] if seeds else seen

    run.__name__ = name
    program("transformers.trainer")(run)


CLIP = dict(
    text_config=dict(vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=16, eos_token_id=2),
    vision_config=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8),
    projection_dim=8,
)
DEBERTA = dict(SMALL, relative_attention=True, pos_att_type=["p2c", "c2p"], position_biased_input=False)
LLAMA = dict(SMALL, num_key_value_heads=1, use_cache=False)
MAMBA = dict(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, state_size=4, use_cache=False, **PLAIN)
RWKV = dict(vocab_size=VOCABULARY, context_length=16, hidden_size=16, num_hidden_layers=2, attention_hidden_size=16, intermediate_size=24, use_cache=False, **PLAIN)
GEMMA = dict(SMALL, num_key_value_heads=1, head_dim=8, use_cache=False, **PLAIN)
ESM = dict(SMALL, pad_token_id=1, mask_token_id=4, position_embedding_type="rotary", token_dropout=True)
QWEN = dict(
    SMALL, num_key_value_heads=1, moe_intermediate_size=12, shared_expert_intermediate_size=12, num_experts=4, num_experts_per_tok=2, decoder_sparse_step=1,
    output_router_logits=True, use_cache=False, experts_implementation="eager",
)  # fmt: skip
REFORMER = dict(
    vocab_size=VOCABULARY, hidden_size=16, num_attention_heads=2, attention_head_size=8, feed_forward_size=24, attn_layers=["local", "lsh"], axial_pos_shape=[2, 4],
    axial_pos_embds_dim=[8, 8], max_position_embeddings=8, local_attn_chunk_length=4, lsh_attn_chunk_length=4, num_buckets=2, is_decoder=True, hash_seed=3, use_cache=False, hidden_dropout_prob=0.0, lsh_attention_probs_dropout_prob=0.0, local_attention_probs_dropout_prob=0.0,
)  # fmt: skip

step_of("mamba", "MambaForCausalLM", "MambaConfig", MAMBA, of_one_stream)
step_of("rwkv", "RwkvForCausalLM", "RwkvConfig", RWKV, of_one_stream)
step_of("deberta", "DebertaV2ForMaskedLM", "DebertaV2Config", DEBERTA)
step_of("clip_with_loss", "CLIPModel", "CLIPConfig", CLIP, of_images_and_text)
step_of("gemma", "GemmaForCausalLM", "GemmaConfig", GEMMA)
step_of("esm", "EsmForMaskedLM", "EsmConfig", ESM)
step_of("reformer", "ReformerModelWithLMHead", "ReformerConfig", REFORMER, lambda number: dict(input_ids=tokens(number, 8), labels=tokens(number, 8)), seeds=True)
step_of("qwen_moe_with_router_logits", "Qwen2MoeForCausalLM", "Qwen2MoeConfig", QWEN)


@program("transformers.trainer")
def llama_with_checkpoints_and_dropout(way):
    """After another model of the process has been compiled."""
    other = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    first = train(way, other, [(torch.ones(3, 4),)] * 2, lambda model, x: model(x).sum())
    model = made("LlamaForCausalLM", "LlamaConfig", dict(LLAMA, attention_dropout=0.2)).train()
    model.gradient_checkpointing_enable()
    return first + train(way, model, [(of_text(number),) for number in range(STEPS)], loss_of)


@program("transformers.generation")
def llama_generates(way):
    """Greedy, with the forward compiled."""
    model = made("LlamaForCausalLM", "LlamaConfig", dict(LLAMA, use_cache=True, eos_token_id=None)).eval()
    called = way.module(model)
    if way.name == "F":
        model.forward = way.function(model.forward)
    elif way.name == "C":
        model.forward, called = way.module(model.forward), model
    seen = judge.Seen()
    with torch.no_grad():
        for number in range(2):
            keywords = dict(input_ids=tokens(number), attention_mask=torch.ones(2, LENGTH, dtype=torch.long), max_new_tokens=8, do_sample=False, pad_token_id=0)
            found = called.generate(**keywords, return_dict_in_generate=True, output_scores=True)
            seen.note("tokens", found.sequences)
            seen.note_all("score", found.scores)
    return note_state(seen, model)


#: What each model is asked for all its layers' states and attentions.
LAYERS = {
    "bert": ("BertModel", "BertConfig", SMALL, of_text),
    "gpt2": ("GPT2Model", "GPT2Config", dict(vocab_size=VOCABULARY, n_positions=32, n_embd=16, n_layer=2, n_head=2), of_text),
    "t5": ("T5Model", "T5Config", dict(vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, decoder_start_token_id=0), of_text),
    "llama": ("LlamaModel", "LlamaConfig", LLAMA, of_text),
    "clip": ("CLIPModel", "CLIPConfig", CLIP, of_images_and_text),
}


def layers_of(name, kind, config, options, inputs):
    """Registers a program: losses of the hidden states and attentions of a model, as a distillation takes them."""

    def batch(number):
        keywords = {key: value for key, value in inputs(number).items() if key not in ("labels", "return_loss")}
        if name == "t5":
            keywords["decoder_input_ids"] = tokens(number + 1, 5)
        return (keywords,)

    def loss(model, keywords):
        outputs = model(**keywords, output_hidden_states=True, output_attentions=True)
        parts = [outputs.text_model_output, outputs.vision_model_output] if name == "clip" else [outputs]
        layers = [layer for part in parts for key, layers in part.items() if key.endswith(("hidden_states", "attentions")) for layer in layers]
        return sum((index + 1) * layer.square().mean() for index, layer in enumerate(layers)) * len(layers)

    def run(way):
        model = made(kind, config, options).train()
        model.set_attn_implementation("eager")  # which alone gives attentions
        return train(way, model, [batch(number) for number in range(STEPS)], loss, rate=1e-4)

    run.__name__ = f"layers_of_{name}"
    program("transformers.trainer")(run)


for key, row in LAYERS.items():
    layers_of(key, *row)
