/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts of real models, by name: for examples, tools and tests, and for engines that store what these describe. An
 * engine with other planes (another dtype, fused layers) passes a layout of its own.
 *
 * Attention layers are planes: K and V of a layer, or its latent. What is not kept for all tokens - sliding windows,
 * recurrent, conv and compressor state - is the row. Where heads are sharded, a rank has its heads of every layer; where
 * the cache is replicated (MLA) it has all of it. Sizes are facts of the models' published configurations, whose
 * revision the description names; a description is part of the namespace and therefore never changes.
 */
#include "engine/selene.h"

#include <string.h>

/* Planes of 64 tokens with one entry a token. K and V are planes of their own. */
#define PLANES(name, count, entry)                                                                                     \
    static const struct selene_plane name[count] = {[0 ...(count) - 1] = {UINT64_C(64) * (entry), 1, (entry)}}

#define BLOG     "kvcache-ai/kvcache-blog@975328816"
#define MEGATRON "NVIDIA-NeMo/Megatron-Bridge@067f987d"

/* Heads of 128 in bf16: 256 bytes a head and token. */
PLANES(qwen3_8b, 2 * 36, 8 * 256);
PLANES(qwen3_32b_tp4, 2 * 64, 2 * 256);
PLANES(llama_31_8b, 2 * 32, 8 * 256);
PLANES(llama_31_70b_tp4, 2 * 80, 2 * 256);
PLANES(llama_31_70b_tp8, 2 * 80, 256);
PLANES(minimax_m2_tp4, 2 * 62, 2 * 256);
PLANES(minimax_m1_tp8, 2 * 10, 256);
PLANES(gemma_3_27b, 2 * 10, 16 * 256);
PLANES(nemotron_8_heads, 2 * 4, 8 * 256);
PLANES(nemotron_3_nano, 2 * 6, 2 * 256);
/* Heads of 64. */
PLANES(gpt_oss_120b, 2 * 18, 8 * 128);
PLANES(gpt_oss_120b_tp4, 2 * 18, 2 * 128);
/* Heads of 256. */
PLANES(qwen3_next, 2 * 12, 2 * 512);
PLANES(qwen3_next_tp2, 2 * 12, 512);
PLANES(qwen35_397b_tp2, 2 * 15, 512);
PLANES(qwen36_27b, 2 * 16, 4 * 512);
PLANES(qwen35_9b, 2 * 8, 4 * 512);
PLANES(qwen38_tp4, 2 * 23, 512);
/* MLA: a latent of 512 and 64 for RoPE, in bf16. */
PLANES(mla_61, 61, 1152);
PLANES(mla_24, 24, 1152);
PLANES(mla_7, 7, 1152);

static const struct selene_plane deepseek_v32[122] = {
    [0 ... 60] = {64 * 1152, 1, 1152}, [61 ... 121] = {64 * 132, 1, 132}, /* indexer keys: 128 of fp8 and a scale */
};
static const struct selene_plane glm_52[99] = {
    [0 ... 77] = {64 * 1152, 1, 1152},
    [78 ... 98] = {64 * 132, 1, 132},
};
/* One entry of 584 bytes for 4 tokens, with an indexer key of 132, or for 128 tokens. */
#define V4_C4                                                                                                          \
    { 64 * 584, 4, 584 }
#define V4_INDEXER                                                                                                     \
    { 64 * 132, 4, 132 }
#define V4_C128                                                                                                        \
    { 2 * 584, 128, 584 }
static const struct selene_plane deepseek_v4_flash[62] = {
    [0 ... 20] = V4_C4,
    [21 ... 41] = V4_INDEXER,
    [42 ... 61] = V4_C128,
};
static const struct selene_plane deepseek_v4_pro[91] = {
    [0 ... 29] = V4_C4,
    [30 ... 59] = V4_INDEXER,
    [60 ... 90] = V4_C128,
};

#define LAYOUT(p, ranks, plane_table, row, text)                                                                       \
    {                                                                                                                  \
        .page_tokens = (p), .rank_count = (ranks), .plane_count = sizeof(plane_table) / sizeof((plane_table)[0]),      \
        .planes = (plane_table), .row_bytes = (row), .description = (text), .description_bytes = sizeof(text) - 1      \
    }
/* Heads sharded over the ranks: no two hold the same. */
#define SHARDED(model, ranks, plane_table, row, text)                                                                  \
    { .name = (model), .about = (text), .layout = LAYOUT(64, ranks, plane_table, row, text) }
/* Every rank holds all of it. */
#define REPLICATED(model, p, ranks, plane_table, row, text)                                                            \
    {                                                                                                                  \
        .name = (model), .about = (text), .layout = LAYOUT(p, ranks, plane_table, row, text), .pages_replicated = 1,   \
        .row_replicated = (row) > 0                                                                                    \
    }
/* The pages replicated, the recurrent state sharded by head. */
#define MIXED(model, ranks, plane_table, row, text)                                                                    \
    { .name = (model), .about = (text), .layout = LAYOUT(64, ranks, plane_table, row, text), .pages_replicated = 1 }

static const struct selene_model models[] = {
    SHARDED("qwen3-8b", 1, qwen3_8b, 0, "Qwen3-8B, K and V in bf16; " BLOG),
    SHARDED("qwen3-32b-tp4", 4, qwen3_32b_tp4, 0, "Qwen3-32B, TP4, K and V in bf16; " BLOG),
    SHARDED("llama-3.1-8b", 1, llama_31_8b, 0, "Llama-3.1-8B, K and V in bf16; " BLOG),
    SHARDED("llama-3.1-70b-tp4", 4, llama_31_70b_tp4, 0, "Llama-3.1-70B, TP4, K and V in bf16; " BLOG),
    SHARDED("llama-3.1-70b-tp8", 8, llama_31_70b_tp8, 0, "Llama-3.1-70B, TP8, K and V in bf16; " BLOG),
    SHARDED("minimax-m2-tp4", 4, minimax_m2_tp4, 0, "MiniMax-M2, TP4, K and V in bf16; " BLOG),
    SHARDED("gpt-oss-120b", 1, gpt_oss_120b, UINT64_C(18) * 128 * 2048,
            "GPT-OSS-120B, 18 full layers in bf16, row: 18 windows of 128 tokens; openai/gpt-oss@7b583341"),
    SHARDED("gpt-oss-120b-tp4", 4, gpt_oss_120b_tp4, UINT64_C(18) * 128 * 512,
            "GPT-OSS-120B, TP4, 18 full layers in bf16, row: 18 windows of 128 tokens; openai/gpt-oss@7b583341"),
    SHARDED("gemma-3-27b", 1, gemma_3_27b, UINT64_C(52) * 1024 * 8192,
            "Gemma 3 27B, 10 global layers in bf16, row: 52 windows of 1024 tokens; google-deepmind/gemma@7691fd4e"),
    REPLICATED("deepseek-v3", 64, 1, mla_61, 0, "DeepSeek-V3, MLA in bf16; deepseek-ai/DeepSeek-V3@9b4e9788"),
    REPLICATED("deepseek-v3-tp4", 64, 4, mla_61, 0, "DeepSeek-V3, TP4, MLA in bf16; deepseek-ai/DeepSeek-V3@9b4e9788"),
    REPLICATED("deepseek-v3-tp8", 64, 8, mla_61, 0, "DeepSeek-V3, TP8, MLA in bf16; deepseek-ai/DeepSeek-V3@9b4e9788"),
    REPLICATED("deepseek-v3.2-tp8", 64, 8, deepseek_v32, 0,
               "DeepSeek-V3.2, TP8, MLA in bf16, indexer keys in fp8; deepseek-ai/DeepSeek-V3.2-Exp@3b99a535"),
    REPLICATED("kimi-k2-tp8", 64, 8, mla_61, 0, "Kimi K2, TP8, MLA in bf16; " BLOG),
    REPLICATED("glm-5.2-tp8", 64, 8, glm_52, 0, "GLM-5.2, TP8, MLA in bf16, indexer keys in fp8 on 21 layers; " BLOG),
    /* The row: windows of 2 blocks of 64 tokens, and the fp32 state of the compressors. At positions that are no
     * multiple of 128 the state of the 128-token compressors comes to it. */
    REPLICATED("deepseek-v4-flash-tp4", 256, 4, deepseek_v4_flash, 4940160,
               "DeepSeek-V4-Flash, TP4, fp8 latents, checkpoints at multiples of 128; vllm-project/vllm@01cc1d3e"),
    REPLICATED("deepseek-v4-flash-tp4-midpage", 256, 4, deepseek_v4_flash, 15425920,
               "DeepSeek-V4-Flash, TP4, fp8 latents, checkpoints anywhere; vllm-project/vllm@01cc1d3e"),
    REPLICATED("deepseek-v4-pro-tp8", 256, 8, deepseek_v4_pro, 7025280,
               "DeepSeek-V4-Pro, TP8, fp8 latents, checkpoints at multiples of 128; vllm-project/vllm@01cc1d3e"),
    SHARDED("qwen3-next-80b", 1, qwen3_next, 77266944,
            "Qwen3-Next-80B, 12 full layers in bf16, row: 36 GDN layers in fp32; huggingface/transformers@008e5742"),
    SHARDED(
        "qwen3-next-80b-tp2", 2, qwen3_next_tp2, 77266944 / 2,
        "Qwen3-Next-80B, TP2, 12 full layers in bf16, row: 36 GDN layers in fp32; huggingface/transformers@008e5742"),
    SHARDED("qwen3.5-9b", 1, qwen35_9b, 51511296,
            "Qwen3.5-9B, 8 full layers in bf16, row: 24 GDN layers in fp32; " BLOG),
    SHARDED("qwen3.5-397b-tp2", 2, qwen35_397b_tp2, 192061440 / 2,
            "Qwen3.5-397B, TP2, 15 full layers in bf16, row: 45 GDN layers in fp32; " BLOG),
    SHARDED("qwen3.6-27b", 1, qwen36_27b, 153944064,
            "Qwen3.6-27B, 16 full layers in bf16, row: 48 GDN layers in fp32; " BLOG),
    SHARDED("qwen3.8-2.4t-tp4", 4, qwen38_tp4, 587292672 / 4,
            "Qwen3.8-2.4T, TP4, 23 full layers in bf16, row: 69 GDN layers in fp32; " BLOG),
    MIXED("kimi-linear-48b", 1, mla_7, 43417600,
          "Kimi-Linear-48B, 7 MLA layers in bf16, row: 20 KDA layers in fp32; MoonshotAI/Kimi-Linear@858dba5e"),
    MIXED("kimi-k3-tp8", 8, mla_24, 449372160 / 8,
          "Kimi K3, TP8, 24 MLA layers in bf16, row: 69 KDA layers in fp32; " BLOG),
    SHARDED("nemotron-h-8b", 1, nemotron_8_heads, 102137856,
            "Nemotron-H-8B, 4 full layers in bf16, row: 24 Mamba-2 layers in fp32; " MEGATRON),
    SHARDED("nemotron-nano-9b-v2", 1, nemotron_8_heads, 143548416,
            "Nemotron Nano 9B v2, 4 full layers in bf16, row: 27 Mamba-2 layers in fp32; " MEGATRON),
    SHARDED("nemotron-3-nano-30b", 1, nemotron_3_nano, 49082368,
            "Nemotron 3 Nano 30B-A3B, 6 full layers in bf16, row: 23 Mamba-2 layers in fp32; " MEGATRON),
    SHARDED("minimax-m1-tp8", 8, minimax_m1_tp8, 293601280 / 8,
            "MiniMax-M1-456B, TP8, 10 full layers in bf16, row: 70 lightning layers in fp32; "
            "MiniMax-AI/MiniMax-M1@2abb4f45"),
};

const struct selene_model *selene_model_at(size_t index) {
    return index < sizeof models / sizeof models[0] ? &models[index] : NULL;
}

const struct selene_model *selene_model_find(const char *name) {
    const struct selene_model *model;

    for (size_t i = 0; name != NULL && (model = selene_model_at(i)) != NULL; i++)
        if (strcmp(model->name, name) == 0)
            return model;
    return NULL;
}
