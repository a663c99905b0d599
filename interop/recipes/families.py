"""The families whose tiny models `compare.py` makes: the type of the model in transformers, its configuration, and what
the converter needs besides."""

STANDARD = dict(
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=320,
    max_position_embeddings=128,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
EXPERTS = dict(STANDARD, num_experts=4, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)
LATENT = dict(
    STANDARD,
    n_routed_experts=4,
    num_experts_per_tok=2,
    moe_intermediate_size=32,
    n_shared_experts=1,
    first_k_dense_replace=1,
    n_group=2,
    topk_group=1,
    kv_lora_rank=16,
    q_lora_rank=24,
    qk_rope_head_dim=8,
    qk_nope_head_dim=8,
    v_head_dim=8,
    routed_scaling_factor=2.5,
    num_key_value_heads=4,
)
LINEAR = dict(
    head_dim=16,
    linear_conv_kernel_dim=4,
    linear_key_head_dim=8,
    linear_value_head_dim=8,
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    full_attention_interval=4,
)
BERT = dict(
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    vocab_size=200,
    max_position_embeddings=64,
)
FAMILIES = {}


def family(name, kind, config, model=None, dtype="bfloat16", extra=None, architecture=None):
    """Enters a family. `extra` has keys that are added to the `config.json` that transformers writes."""
    FAMILIES[name] = dict(kind=kind, config=config, model=model, dtype=dtype, extra=extra or {}, architecture=architecture)


family("llama", "llama", dict(STANDARD, rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=5e5)))
family(
    "llama3",
    "llama",
    dict(
        STANDARD,
        head_dim=16,
        rope_parameters=dict(
            rope_type="llama3",
            factor=8.0,
            rope_theta=5e5,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=64,
        ),
    ),
)
family(
    "llama-yarn",
    "llama",
    dict(
        STANDARD,
        rope_parameters=dict(
            rope_type="yarn",
            factor=4.0,
            rope_theta=1e4,
            original_max_position_embeddings=32,
            beta_fast=32.0,
            beta_slow=1.0,
            attention_factor=1.1,
        ),
    ),
)
family("mistral", "mistral", STANDARD)
family(
    "granite",
    "granite",
    dict(STANDARD, attention_multiplier=0.25, embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=8.0),
)
family("smollm3", "smollm3", dict(STANDARD, num_hidden_layers=4))
family("olmo", "olmo", dict(STANDARD, clip_qkv=8.0))
family("olmo-noclip", "olmo", dict(STANDARD))
family("olmo2", "olmo2", STANDARD)
family("olmo3", "olmo3", dict(STANDARD, num_hidden_layers=4, sliding_window=16))
family("mixtral", "mixtral", dict(EXPERTS))
family("qwen2moe", "qwen2_moe", dict(EXPERTS, shared_expert_intermediate_size=48, decoder_sparse_step=1))
family("qwen3moe", "qwen3_moe", dict(EXPERTS, head_dim=16, norm_topk_prob=True, decoder_sparse_step=1))
family("olmoe", "olmoe", EXPERTS)
family(
    "deepseek2",
    "deepseek_v2",
    dict(
        LATENT,
        rope_parameters=dict(
            rope_type="yarn",
            factor=4.0,
            rope_theta=1e4,
            original_max_position_embeddings=32,
            beta_fast=32,
            beta_slow=1,
            mscale=0.707,
            mscale_all_dim=0.707,
        ),
    ),
)
family("deepseek2-lite", "deepseek_v2", dict(LATENT, q_lora_rank=None))
family(
    "deepseek3",
    "deepseek_v3",
    dict(
        LATENT,
        rope_parameters=dict(
            rope_type="yarn",
            factor=4.0,
            rope_theta=1e4,
            original_max_position_embeddings=32,
            beta_fast=32,
            beta_slow=1,
            mscale=1.0,
            mscale_all_dim=1.0,
        ),
    ),
    extra=dict(scoring_func="sigmoid", topk_method="noaux_tc"),
)
family("deepseek3-noscore", "deepseek_v3", LATENT)
family(
    "glm4moe",
    "glm4_moe",
    dict(
        STANDARD,
        head_dim=16,
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        n_shared_experts=1,
        first_k_dense_replace=1,
        n_group=1,
        topk_group=1,
        use_qk_norm=True,
        attention_bias=True,
    ),
)
family("minimaxm2", "minimax_m2", dict(EXPERTS, head_dim=16, rotary_dim=8))
family(
    "dots1",
    "dots1",
    dict(
        STANDARD,
        num_key_value_heads=4,
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        n_shared_experts=1,
        first_k_dense_replace=1,
        n_group=1,
        topk_group=1,
        routed_scaling_factor=2.5,
        head_dim=8,
    ),
)
family(
    "jamba",
    "jamba",
    dict(
        STANDARD,
        num_hidden_layers=4,
        num_experts=4,
        num_experts_per_tok=2,
        attn_layer_offset=1,
        attn_layer_period=2,
        expert_layer_offset=1,
        expert_layer_period=2,
        mamba_d_state=8,
        mamba_d_conv=4,
        mamba_expand=2,
        mamba_dt_rank=4,
        use_mamba_kernels=False,
    ),
    dtype="float32",
)
family("granitemoe", "granitemoe", dict(EXPERTS))
family("granitemoeshared", "granitemoeshared", dict(EXPERTS, shared_intermediate_size=48))
family(
    "qwen3next",
    "qwen3_next",
    dict(EXPERTS, **LINEAR, num_hidden_layers=4, shared_expert_intermediate_size=48),
    dtype="float32",
)
family("qwen35", "qwen3_5_text", dict(STANDARD, num_hidden_layers=4, **LINEAR), dtype="float32")
family(
    "qwen35moe",
    "qwen3_5_moe_text",
    dict(EXPERTS, **LINEAR, num_hidden_layers=4, shared_expert_intermediate_size=48),
    dtype="float32",
)
family(
    "llama4",
    "llama4_text",
    dict(
        STANDARD,
        num_hidden_layers=4,
        intermediate_size_mlp=64,
        intermediate_size=48,
        num_local_experts=4,
        num_experts_per_tok=1,
        interleave_moe_layer_step=2,
        head_dim=8,
    ),
)
family("gptoss", "gpt_oss", dict(EXPERTS, head_dim=16, sliding_window=16, hidden_size=32, intermediate_size=32))
family("gemma", "gemma", dict(STANDARD, head_dim=16))
family("gemma2", "gemma2", dict(STANDARD, head_dim=16, sliding_window=16))
family("gemma3", "gemma3_text", dict(STANDARD, head_dim=16, sliding_window=16))
family(
    "gemma3-linear",
    "gemma3_text",
    dict(
        STANDARD,
        vocab_size=330,
        head_dim=16,
        sliding_window=16,
        rope_parameters=dict(
            full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6),
            sliding_attention=dict(rope_type="default", rope_theta=1e4),
        ),
    ),
)
family("nemotron", "nemotron", dict(STANDARD, partial_rotary_factor=0.5))
family(
    "gemma4",
    "gemma4_text",
    dict(
        STANDARD,
        num_hidden_layers=4,
        head_dim=8,
        global_head_dim=16,
        num_global_key_value_heads=1,
        sliding_window=16,
        hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=320,
        num_kv_shared_layers=1,
        layer_types=["sliding_attention", "full_attention"] * 2,
        enable_moe_block=False,
        num_experts=None,
    ),
    extra=dict(global_head_dim=16),
)
family(
    "gemma4moe",
    "gemma4_text",
    dict(
        STANDARD,
        num_hidden_layers=2,
        head_dim=8,
        global_head_dim=16,
        num_global_key_value_heads=1,
        attention_k_eq_v=True,
        sliding_window=16,
        hidden_size_per_layer_input=0,
        num_kv_shared_layers=0,
        layer_types=["sliding_attention", "full_attention"],
        enable_moe_block=True,
        num_experts=4,
        top_k_experts=2,
        moe_intermediate_size=32,
    ),
    extra=dict(global_head_dim=16, num_global_key_value_heads=1),
)
family("qwen2", "qwen2", STANDARD)
family("qwen3", "qwen3", dict(STANDARD, head_dim=16))
family("phi2", "phi", dict(STANDARD, num_key_value_heads=4))
family("phi3", "phi3", STANDARD)
family(
    "phi3-longrope",
    "phi3",
    dict(
        STANDARD,
        original_max_position_embeddings=64,
        rope_parameters=dict(rope_type="longrope", rope_theta=1e4, long_factor=[1.0, 1.5, 2.0, 3.0], short_factor=[1.0, 1.1, 1.2, 1.3]),
    ),
)
family("glm4", "glm4", dict(STANDARD, head_dim=16))
family("stablelm", "stablelm", dict(STANDARD, use_qkv_bias=True))
family(
    "starcoder",
    "gpt_bigcode",
    dict(n_embd=32, n_layer=2, n_head=4, n_positions=128, n_inner=128, vocab_size=320, multi_query=True),
)
family("starcoder2", "starcoder2", STANDARD)
family("commandr", "cohere", dict(STANDARD, logit_scale=0.0625))
family("commandr-qknorm", "cohere", dict(STANDARD, logit_scale=0.0625, use_qk_norm=True))
family("cohere2", "cohere2", dict(STANDARD, logit_scale=0.0625, sliding_window=16), extra=dict(rotary_pct=1.0))
family(
    "mpt",
    "mpt",
    dict(d_model=32, n_heads=4, n_layers=2, max_seq_len=128, vocab_size=320, expansion_ratio=4),
    architecture="MPTForCausalLM",
)
family(
    "falcon-7b",
    "falcon",
    dict(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=320,
        multi_query=True,
        new_decoder_architecture=False,
        parallel_attn=True,
        bias=False,
        alibi=False,
    ),
)
family(
    "falcon-40b",
    "falcon",
    dict(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_kv_heads=2,
        vocab_size=320,
        multi_query=True,
        new_decoder_architecture=True,
        parallel_attn=True,
        bias=False,
        alibi=False,
    ),
)
family("bloom", "bloom", dict(hidden_size=32, n_layer=2, n_head=4, vocab_size=320))
family("gptneox", "gpt_neox", dict(STANDARD, num_key_value_heads=None), extra=dict(rotary_pct=0.25))
family("ernie45", "ernie4_5", dict(STANDARD, head_dim=16))
family("seedoss", "seed_oss", dict(STANDARD, head_dim=16))
family("apertus", "apertus", STANDARD)
family("hunyuan", "hunyuan_v1_dense", dict(STANDARD, head_dim=16))
family(
    "hunyuan-dyn",
    "hunyuan_v1_dense",
    dict(
        STANDARD,
        head_dim=16,
        max_position_embeddings=32768,
        rope_parameters=dict(rope_type="dynamic", alpha=1000.0, rope_theta=10000.0, factor=1.0),
    ),
)
family(
    "hunyuanmoe",
    "hunyuan_v1_moe",
    dict(EXPERTS, moe_topk=[2, 2], num_shared_expert=[1, 1], moe_intermediate_size=[64, 64], head_dim=8),
    extra=dict(moe_topk=[2, 2]),
)
family(
    "lfm2",
    "lfm2",
    dict(
        STANDARD,
        num_hidden_layers=4,
        layer_types=["conv", "conv", "full_attention", "conv"],
        conv_L_cache=3,
        block_multiple_of=16,
        block_auto_adjust_ff_dim=True,
        block_ffn_dim_multiplier=1.0,
    ),
)
family(
    "lfm2moe",
    "lfm2_moe",
    dict(
        EXPERTS,
        num_hidden_layers=4,
        layer_types=["conv", "conv", "full_attention", "conv"],
        conv_L_cache=3,
        num_dense_layers=2,
        use_expert_bias=True,
    ),
)
family(
    "modernbert-model",
    "modernbert",
    dict(STANDARD, num_hidden_layers=4, local_attention=16, global_attn_every_n_layers=3, cls_token_id=1, sep_token_id=2),
    model="ModernBertModel",
    dtype="float32",
)
family("bert", "bert", BERT, model="BertModel", dtype="float32")
family("bert-mlm", "bert", BERT, model="BertForMaskedLM", dtype="float32")
family("bert-cls", "bert", dict(BERT, num_labels=3), model="BertForSequenceClassification", dtype="float32")
family("bert-cls2", "bert", dict(BERT, num_labels=2), model="BertForSequenceClassification", dtype="float32")
family(
    "modernbert-cls",
    "modernbert",
    dict(STANDARD, num_hidden_layers=4, num_labels=3, cls_token_id=1, sep_token_id=2),
    model="ModernBertForSequenceClassification",
    dtype="float32",
)
family(
    "roberta",
    "roberta",
    dict(BERT, vocab_size=320, max_position_embeddings=66, pad_token_id=1, type_vocab_size=1),
    model="RobertaModel",
    dtype="float32",
)
family(
    "xlmr",
    "xlm-roberta",
    dict(BERT, vocab_size=200, max_position_embeddings=66, pad_token_id=1, type_vocab_size=1),
    model="XLMRobertaModel",
    dtype="float32",
)
family(
    "xlmr-cls",
    "xlm-roberta",
    dict(BERT, vocab_size=200, max_position_embeddings=66, pad_token_id=1, type_vocab_size=1, num_labels=1),
    model="XLMRobertaForSequenceClassification",
    dtype="float32",
)
family(
    "t5",
    "t5",
    dict(
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        vocab_size=200,
        decoder_start_token_id=0,
        feed_forward_proj="gated-gelu",
    ),
    model="T5ForConditionalGeneration",
    dtype="float32",
)
family(
    "mamba",
    "mamba",
    dict(hidden_size=32, num_hidden_layers=2, vocab_size=320, state_size=8, use_mambapy=False),
    dtype="float32",
)
family(
    "mamba2",
    "mamba2",
    dict(
        hidden_size=32,
        num_hidden_layers=2,
        vocab_size=320,
        state_size=16,
        num_heads=8,
        head_dim=8,
        n_groups=2,
        expand=2,
    ),
    dtype="float32",
)
family(
    "falconmamba",
    "falcon_mamba",
    dict(hidden_size=32, num_hidden_layers=2, vocab_size=320, state_size=8),
    dtype="float32",
)
family(
    "gpt2",
    "gpt2",
    dict(n_embd=32, n_layer=2, n_head=4, n_positions=128, vocab_size=320),
    dtype="float16",
    extra=dict(n_ctx=128),
)
family("arcee", "arcee", STANDARD)
family(
    "t5encoder",
    "t5",
    dict(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=64),
    model="T5EncoderModel",
)
PIXELS = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
family(
    "mistral3",
    "mistral3",
    dict(
        text_config=dict(
            STANDARD,
            model_type="ministral3",
            head_dim=16,
            rope_parameters=dict(
                rope_type="yarn",
                factor=4.0,
                rope_theta=1e6,
                original_max_position_embeddings=32,
                beta_fast=32.0,
                beta_slow=1.0,
                mscale=1.0,
                mscale_all_dim=1.0,
                llama_4_scaling_beta=0.1,
            ),
        ),
        vision_config=dict(PIXELS, model_type="pixtral"),
    ),
    model="Mistral3ForConditionalGeneration",
)
family(
    "mistral31",
    "mistral3",
    dict(
        text_config=dict(STANDARD, model_type="mistral", head_dim=16, rope_theta=1e6),
        vision_config=dict(PIXELS, model_type="pixtral"),
    ),
    model="Mistral3ForConditionalGeneration",
)
