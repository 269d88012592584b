"""Models of others in small random configurations, each with what it is called with."""
import torch

ZOO = {}


def model(package):
    """Registers a function that gives (module, function of a number that gives the keywords of a call)."""

    def register(make):
        ZOO[make.__name__] = (package, make)
        return make

    return register


def tokens(number, length=7, vocabulary=50):
    return torch.randint(3, vocabulary, (2, length), generator=torch.Generator().manual_seed(number))


def padding(length=7, left=False):
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, :2] = 0
    return mask if left else mask.flip(1)


def pixels(number, size=32, channels=3, batch=2):
    return torch.randn(batch, channels, size, size, generator=torch.Generator().manual_seed(number), dtype=torch.float64)


SMALL = dict(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=32)


@model("transformers")
def bert():
    from transformers import BertConfig, BertForSequenceClassification

    module = BertForSequenceClassification(BertConfig(**SMALL))
    return module, lambda n: dict(input_ids=tokens(n), attention_mask=padding(), labels=torch.tensor([0, 1]))


@model("transformers")
def bert_with_eager_attention():
    from transformers import BertConfig, BertForMaskedLM

    module = BertForMaskedLM(BertConfig(**SMALL, attn_implementation="eager"))
    return module, lambda n: dict(input_ids=tokens(n), attention_mask=padding(), labels=tokens(n + 1))


@model("transformers")
def distilbert():
    from transformers import DistilBertConfig, DistilBertForTokenClassification

    module = DistilBertForTokenClassification(DistilBertConfig(vocab_size=50, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=32))
    return module, lambda n: dict(input_ids=tokens(n), attention_mask=padding(), labels=tokens(n) % 2)


@model("transformers")
def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    module = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2))
    return module, lambda n: dict(input_ids=tokens(n), attention_mask=padding(left=True), labels=tokens(n), use_cache=False)


@model("transformers")
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    module = LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=1))
    return module, lambda n: dict(input_ids=tokens(n), attention_mask=padding(left=True), labels=tokens(n), use_cache=False)


@model("transformers")
def mixtral():
    from transformers import MixtralConfig, MixtralForCausalLM

    module = MixtralForCausalLM(MixtralConfig(**SMALL, num_key_value_heads=1, num_local_experts=3, num_experts_per_tok=2, experts_implementation="eager"))
    return module, lambda n: dict(input_ids=tokens(n), attention_mask=padding(left=True), labels=tokens(n), use_cache=False)


@model("transformers")
def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    module = T5ForConditionalGeneration(T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, decoder_start_token_id=0))
    return module, lambda n: dict(input_ids=tokens(n), attention_mask=padding(), labels=tokens(n + 1, 5), use_cache=False)


@model("transformers")
def bart_with_layer_drop():
    from transformers import BartConfig, BartForConditionalGeneration

    sizes = dict(d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24)
    module = BartForConditionalGeneration(BartConfig(vocab_size=50, max_position_embeddings=32, encoder_layerdrop=0.5, decoder_layerdrop=0.5, **sizes))
    return module, lambda n: dict(input_ids=tokens(n), attention_mask=padding(), labels=tokens(n + 1, 5), use_cache=False)


@model("transformers")
def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    sizes = dict(d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24)
    special = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, apply_spec_augment=True, mask_time_prob=0.2, mask_time_min_masks=1)
    module = WhisperForConditionalGeneration(WhisperConfig(vocab_size=50, num_mel_bins=8, max_source_positions=10, max_target_positions=16, **sizes, **special))
    heard = lambda n: pixels(n, 20, 1)[:, 0, :8].contiguous()  # noqa: E731
    return module, lambda n: dict(input_features=heard(n), labels=tokens(n, 5), use_cache=False)


@model("transformers")
def wav2vec2():
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, conv_dim=(8, 8), conv_stride=(4, 2), conv_kernel=(8, 3))
    special = dict(vocab_size=50, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, layerdrop=0.3, mask_time_prob=0.3, mask_time_length=2)
    module = Wav2Vec2ForCTC(Wav2Vec2Config(**sizes, **special))
    return module, lambda n: dict(input_values=pixels(n, 16, 1).reshape(2, -1), labels=tokens(n, 4))


@model("transformers")
def vit_of_transformers():
    from transformers import ViTConfig, ViTForImageClassification

    sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=32, patch_size=8)
    return ViTForImageClassification(ViTConfig(**sizes)), lambda n: dict(pixel_values=pixels(n), labels=torch.tensor([0, 1]))


@model("transformers")
def clip():
    from transformers import CLIPConfig, CLIPModel

    text = dict(vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=16, eos_token_id=2)
    vision = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8)
    module = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8))
    return module, lambda n: dict(input_ids=tokens(n), attention_mask=padding(), pixel_values=pixels(n), return_loss=True)


def of_torchvision(name, size=32, **options):
    import torchvision

    # A BatchNorm of two numbers is a step, whose gradients are rounding.
    return getattr(torchvision.models, name)(num_classes=5, **options), lambda n: dict(x=pixels(n, size, batch=5))


@model("torchvision")
def resnet18():
    return of_torchvision("resnet18")


@model("torchvision")
def efficientnet_b0():
    return of_torchvision("efficientnet_b0", stochastic_depth_prob=0.5)


@model("torchvision")
def mobilenet_v3_small():
    return of_torchvision("mobilenet_v3_small")


@model("torchvision")
def small_vision_transformer():
    import torchvision

    module = torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=24, dropout=0.1, num_classes=5)
    return module, lambda n: dict(x=pixels(n))


@model("torchvision")
def small_convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt([CNBlockConfig(8, 16, 2), CNBlockConfig(16, None, 2)], stochastic_depth_prob=0.5, num_classes=5), lambda n: dict(x=pixels(n))


@model("torchvision")
def small_swin_transformer():
    import torchvision

    module = torchvision.models.SwinTransformer(
        patch_size=[2, 2], embed_dim=8, depths=[2, 2], num_heads=[2, 2], window_size=[4, 4], stochastic_depth_prob=0.5, num_classes=5
    )
    return module, lambda n: dict(x=pixels(n))


def of_timm(name, **options):
    import timm

    return timm.create_model(name, num_classes=5, **options), lambda n: dict(x=pixels(n, batch=5))


@model("timm")
def timm_vit():
    return of_timm("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, embed_dim=24, drop_path_rate=0.3)


@model("timm")
def timm_resnet():
    return of_timm("resnet10t", drop_path_rate=0.3)


@model("timm")
def timm_mixer():
    import timm

    return timm.models.MlpMixer(5, img_size=32, patch_size=8, num_blocks=2, embed_dim=16, drop_path_rate=0.3), lambda n: dict(x=pixels(n))


@model("timm")
def timm_mobilenet():
    return of_timm("mobilenetv3_small_050")
