// Every key of DeepSpeed's configuration file that cadre knows, and what becomes of it.

#include "spec/deepspeed.h"

namespace cadre {
namespace {

constexpr std::string_view kOffload = "nothing is offloaded: memory is one, the host's";
constexpr std::string_view kBuckets = "one process reduces nothing, so there are no buckets";
constexpr std::string_view kOneProcess = "one process communicates nothing";
constexpr std::string_view kSharding = "one process holds every parameter whole";
constexpr std::string_view kMeasured =
    "every step is measured: metrics.jsonl, TensorBoard and --trace";
constexpr std::string_view kRecompute =
    "training.gradient_checkpointing says whether activations are recomputed; nothing is "
    "partitioned";
constexpr std::string_view kScale = "the loss scaler doubles and halves, and keeps no other state";
constexpr std::string_view kOther = "cadre has nothing of the kind";

constexpr DeepSpeedKey kKeys[] = {
    {"train_batch_size", "training.gradient_accumulation_steps", ""},
    {"train_micro_batch_size_per_gpu", "training.micro_batch_size", ""},
    {"gradient_accumulation_steps", "training.gradient_accumulation_steps", ""},
    {"gradient_clipping", "training.max_grad_norm", ""},
    {"bf16.enabled", "training.precision", ""},
    {"bfloat16.enabled", "training.precision", ""},
    {"fp16.enabled", "training.precision", ""},
    {"fp16.initial_scale_power", "training.initial_loss_scale", ""},
    {"fp16.loss_scale_window", "training.loss_scale_window", ""},
    {"optimizer.type", "training.optimizer", ""},
    {"optimizer.params.lr", "training.learning_rate", ""},
    {"optimizer.params.betas", "training.beta1", ""},
    {"optimizer.params.eps", "training.epsilon", ""},
    {"optimizer.params.weight_decay", "training.weight_decay", ""},
    {"optimizer.params.momentum", "training.momentum", ""},
    {"optimizer.params.nesterov", "training.nesterov", ""},
    {"optimizer.params.adam_w_mode", "training.optimizer", ""},
    {"scheduler.type", "training.lr_scheduler", ""},
    {"scheduler.params.warmup_max_lr", "training.learning_rate", ""},
    {"scheduler.params.warmup_num_steps", "training.warmup_steps", ""},
    {"scheduler.params.total_num_steps", "training.steps", ""},
    {"scheduler.params.cos_min_ratio", "training.min_lr_ratio", ""},
    {"zero_optimization.stage", "parallel.zero_stage", ""},

    {"fp16.loss_scale", "", "the loss scale is dynamic; 0 means that to DeepSpeed, too"},
    {"fp16.auto_cast", "", "kernels choose their types by `precision` alone"},
    {"fp16.hysteresis", "", kScale},
    {"fp16.consecutive_hysteresis", "", kScale},
    {"fp16.min_loss_scale", "", kScale},
    {"fp16.fp16_master_weights_and_grads", "", "masters and gradients are fp32"},
    {"bf16.immediate_grad_update", "", "gradients are summed in fp32 as they come"},
    {"bf16.bf16_master_weights_and_grads", "", "masters and gradients are fp32"},
    {"bf16.bf16_optimizer_states", "", "moments are fp32"},
    {"optimizer.params.torch_adam", "", "there is one AdamW"},
    {"optimizer.params.bias_correction", "", "moments are always corrected"},
    {"optimizer.params.amsgrad", "", "AdamW here has no such variant"},
    {"optimizer.legacy_fusion", "", kOther},
    {"scheduler.params.warmup_min_lr", "", "warm-up begins at zero"},
    {"scheduler.params.warmup_min_ratio", "", "warm-up begins at zero"},
    {"scheduler.params.warmup_type", "", "warm-up is linear"},
    {"scheduler.params.last_batch_iteration", "", "a resumed run knows its step"},

    {"zero_optimization.offload_optimizer", "", kOffload},
    {"zero_optimization.offload_param", "", kOffload},
    {"zero_optimization.cpu_offload", "", kOffload},
    {"zero_optimization.cpu_offload_params", "", kOffload},
    {"zero_optimization.cpu_offload_use_pin_memory", "", kOffload},
    {"zero_optimization.overlap_comm", "", kOneProcess},
    {"zero_optimization.contiguous_gradients", "", "gradients always lie in one arena"},
    {"zero_optimization.sub_group_size", "", "the optimizer goes tensor by tensor"},
    {"zero_optimization.reduce_scatter", "", kOneProcess},
    {"zero_optimization.reduce_bucket_size", "", kBuckets},
    {"zero_optimization.allgather_partitions", "", kOneProcess},
    {"zero_optimization.allgather_bucket_size", "", kBuckets},
    {"zero_optimization.round_robin_gradients", "", kOneProcess},
    {"zero_optimization.load_from_fp32_weights", "", "masters are always loaded"},
    {"zero_optimization.elastic_checkpoint", "", "any layout loads what any other saved"},
    {"zero_optimization.ignore_unused_parameters", "", "every parameter is used"},
    {"zero_optimization.stage3_prefetch_bucket_size", "", kBuckets},
    {"zero_optimization.stage3_param_persistence_threshold", "", kSharding},
    {"zero_optimization.stage3_max_live_parameters", "", kSharding},
    {"zero_optimization.stage3_max_reuse_distance", "", kSharding},
    {"zero_optimization.stage3_module_granularity_threshold", "", kSharding},
    {"zero_optimization.stage3_use_all_reduce_for_fetch_params", "", kSharding},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "",
     "a checkpoint always holds whole weights in the compute type"},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save", "",
     "a checkpoint always holds whole weights in the compute type"},
    {"zero_optimization.zero_hpz_partition_size", "", kSharding},
    {"zero_optimization.zero_quantized_weights", "", kOneProcess},
    {"zero_optimization.zero_quantized_nontrainable_weights", "", kOneProcess},
    {"zero_optimization.zero_quantized_gradients", "", kOneProcess},
    {"zero_optimization.mics_shard_size", "", kSharding},
    {"zero_optimization.mics_hierarchical_params_gather", "", kSharding},
    {"zero_optimization.memory_efficient_linear", "", kSharding},
    {"zero_optimization.log_trace_cache_warnings", "", kOther},
    {"zero_optimization.param_persistence_threshold", "", kSharding},
    {"zero_optimization.model_persistence_threshold", "", kSharding},
    {"zero_optimization.use_multi_rank_bucket_allreduce", "", kBuckets},
    {"zero_optimization.legacy_stage1", "", kOther},
    {"zero_optimization.leaf_module", "", kSharding},

    {"activation_checkpointing", "", kRecompute},
    {"communication_data_type", "",
     "one process communicates nothing; gradients are summed in fp32"},
    {"seq_parallel_communication_data_type", "", kOneProcess},
    {"prescale_gradients", "", kOneProcess},
    {"gradient_predivide_factor", "", kOneProcess},
    {"sparse_gradients", "", "gradients are dense"},
    {"disable_allgather", "", kOneProcess},
    {"data_types", "", "gradients are accumulated in fp32"},
    {"zero_allow_untested_optimizer", "", "every optimizer is tested with every layout"},
    {"zero_force_ds_cpu_optimizer", "", kOffload},
    {"tensor_parallel", "", "parallel.tensor_parallel_size says it"},
    {"autotp_size", "", "parallel.tensor_parallel_size says it"},
    {"pipeline", "", "parallel.pipeline_parallel_size says it"},
    {"amp", "", "training.precision says it"},
    {"torch_autocast", "", "training.precision says it"},
    {"compile", "", kOther},
    {"steps_per_print", "", kMeasured},
    {"wall_clock_breakdown", "", kMeasured},
    {"memory_breakdown", "", kMeasured},
    {"dump_state", "", "the resolved configuration is in run.yaml"},
    {"flops_profiler", "", kMeasured},
    {"comms_logger", "", kOneProcess},
    {"monitor_config", "", kMeasured},
    {"tensorboard", "", kMeasured},
    {"wandb", "", kMeasured},
    {"comet", "", kMeasured},
    {"csv_monitor", "", kMeasured},
    {"autotuning", "", kOther},
    {"elasticity", "", kOther},
    {"aio", "", kOffload},
    {"nebula", "", kOther},
    {"checkpoint", "", "`checkpoint` in the configuration says it"},
    {"data_efficiency", "", kOther},
    {"curriculum_learning", "", kOther},
    {"progressive_layer_drop", "", kOther},
    {"eigenvalue", "", kOther},
    {"quantize_training", "", kOther},
    {"compression_training", "", kOther},
    {"sparse_attention", "", "attention is exact"},
    {"hybrid_engine", "", kOther},
    {"dataloader_drop_last", "", "a step always has its whole batch"},
    {"use_data_before_expert_parallelism", "", kOneProcess},
    {"graph_harvesting", "", kOther},
};

}  // namespace

std::span<const DeepSpeedKey> deepspeed_keys() {
  return kKeys;
}

}  // namespace cadre
