#include "diptych/native/codegen/compiled_kernel.h"

#include <c10/core/impl/alloc_cpu.h>

#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "diptych/base/check.h"
#include "diptych/base/parallel.h"
#include "diptych/native/codegen/complex_parts.h"
#include "diptych/native/codegen/kernel_text.h"
#include "diptych/native/jit/jit.h"
#include "diptych/native/kernel/print.h"
#include "diptych/native/scalar/scalar_code.h"
#include "diptych/native/schedule/call_sizes.h"
#include "diptych/native/schedule/nontemporal_stores.h"
#include "diptych/native/schedule/scattered_sums.h"
#include "diptych/native/schedule/schedule.h"

namespace diptych::detail {
namespace {

// The points that are worth a thread: as many as in ATen where a point takes a few operations, and fewer where it takes
// more, functions above all.
int64_t grain_of(const Kernel& kernel) {
  constexpr int64_t kPoints = 32768, kFew = 4, kExpensive = 16;
  int64_t operations = 0;
  for (const KernelValue& value : kernel.values) {
    const auto* scalar = std::get_if<KernelScalar>(&value.made_by);
    if (scalar != nullptr) operations += is_expensive(*scalar->op) ? kExpensive : 1;
  }
  return kPoints * kFew / std::max(kFew, operations);
}

// Memory of a thread that grows and is used again, aligned to a cache line.
class ThreadMemory {
 public:
  ThreadMemory() = default;
  ThreadMemory(const ThreadMemory&) = delete;
  ThreadMemory& operator=(const ThreadMemory&) = delete;
  ~ThreadMemory() { c10::free_cpu(data_); }
  void* get(int64_t bytes) {
    if (bytes > size_) {
      c10::free_cpu(std::exchange(data_, nullptr));  // the next line may throw
      size_ = 0;
      data_ = c10::alloc_cpu(static_cast<size_t>(bytes));
      size_ = bytes;
    }
    return data_;
  }

 private:
  void* data_ = nullptr;
  int64_t size_ = 0;
};

// What a call has to do at its sizes.
struct Work {
  std::vector<int64_t> parameters;
  std::vector<int64_t> finish_steps;
  int64_t rows = 0, points_per_row = 1, memory_bytes = 0;
  int64_t chunks = 0, partial_bytes = 0;
  bool moves_enough = false;  // for non-temporal stores
};

class JitKernel final : public CompiledKernel {
 public:
  explicit JitKernel(Schedule schedule)
      : schedule_(std::move(schedule)),
        text_(write_kernel(schedule_)),
        moved_(schedule_),
        grain_(grain_of(schedule_.kernel)) {
    const std::string& name = schedule_.kernel.name;
    code_ = compile_llvm(text_.text, name);
    text_.text.clear();
    rows_ = code_->address(name);
    for (size_t i = 0; i < text_.finishes.size(); ++i) {
      finishes_.push_back(code_->address(fmt::format("{}_finish_{}", name, i)));
    }
    if (schedule_.parameters == 0) fixed_ = work_at({});
  }

  void run(void* const* inputs, void* const* outputs, const std::vector<int64_t>& symbols) const override {
    if (schedule_.parameters == 0) return run(inputs, outputs, fixed_);
    run(inputs, outputs, work_at(symbols));
  }

 private:
  using Rows = void(void* const*, void* const*, int64_t, int64_t, void*, void*, int64_t, int64_t, const int64_t*);
  using Finish = void(void* const*, void* const*, int64_t, int64_t, void*, int64_t, const int64_t*);
  using FixedRows = void(void* const*, void* const*, int64_t, int64_t, void*, void*, int64_t, int64_t);
  using FixedFinish = void(void* const*, void* const*, int64_t, int64_t, void*, int64_t);

  Work work_at(const std::vector<int64_t>& symbols) const {
    Work work;
    work.parameters = code_parameters(schedule_, symbols);
    work.rows = count_rows(schedule_, symbols);
    int64_t points = 1, row_points = 1;
    for (size_t d = 0; d < schedule_.kernel.extents.size(); ++d) {
      const int64_t extent = SizeProduct(schedule_.kernel.extents[d]).at(symbols);
      points *= extent;
      if (schedule_.row.contains(static_cast<int32_t>(d))) row_points *= extent;
    }
    work.points_per_row = std::max<int64_t>(1, points / std::max<int64_t>(1, work.rows));
    work.memory_bytes = text_.memory_bytes * (text_.is_per_point ? row_points : 1);
    work.moves_enough = text_.has_nontemporal_stores && moved_.at(symbols) >= least_nontemporal_bytes();
    if (schedule_.final_reductions.empty()) return work;
    const PartialSizes sizes = partial_sizes(schedule_, symbols);
    work.chunks = sizes.chunks;
    work.partial_bytes = sizes.bytes;
    for (const auto& dims : text_.finishes) {
      work.finish_steps.push_back(count_finish_steps(schedule_, dims, symbols));
    }
    return work;
  }

  void run(void* const* inputs, void* const* outputs, const Work& work) const {
    if (work.chunks == 0) {
      const int64_t grain = std::max<int64_t>(1, grain_ / work.points_per_row);
      in_parallel(work.rows, grain,
                  [&](int64_t begin, int64_t end) { run_rows(inputs, outputs, begin, end, nullptr, work); });
      return;
    }
    // The calling thread's: it waits here until all chunks are done.
    static thread_local ThreadMemory partial_memory;
    char* partial = static_cast<char*>(partial_memory.get(work.chunks * work.partial_bytes));
    const int64_t rows_of_chunk = (work.rows + work.chunks - 1) / work.chunks;
    const int64_t grain = std::max<int64_t>(1, grain_ / (work.points_per_row * std::max<int64_t>(1, rows_of_chunk)));
    in_parallel(work.chunks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t first = chunk * work.rows / work.chunks, last = (chunk + 1) * work.rows / work.chunks;
        run_rows(inputs, outputs, first, last, partial + chunk * work.partial_bytes, work);
      }
    });
    for (size_t i = 0; i < finishes_.size(); ++i) {
      in_parallel(work.finish_steps[i], 1, [&](int64_t begin, int64_t end) {
        if (work.parameters.empty()) {
          reinterpret_cast<FixedFinish*>(finishes_[i])(inputs, outputs, begin, end, partial, 0);
        } else {
          reinterpret_cast<Finish*>(finishes_[i])(inputs, outputs, begin, end, partial, 0, work.parameters.data());
        }
      });
    }
  }

  void run_rows(void* const* inputs, void* const* outputs, int64_t begin, int64_t end, void* partial,
                const Work& work) const {
    static thread_local ThreadMemory row_memory;
    void* const memory = work.memory_bytes == 0 ? nullptr : row_memory.get(work.memory_bytes);
    const int64_t nontemporal = work.moves_enough && !overwrites_input(inputs, outputs) ? 1 : 0;
    if (work.parameters.empty()) {
      reinterpret_cast<FixedRows*>(rows_)(inputs, outputs, begin, end, partial, memory, 0, nontemporal);
    } else {
      const int64_t* const parameters = work.parameters.data();
      reinterpret_cast<Rows*>(rows_)(inputs, outputs, begin, end, partial, memory, 0, nontemporal, parameters);
    }
  }

  bool overwrites_input(void* const* inputs, void* const* outputs) const {
    const std::span<void* const> all(outputs, schedule_.kernel.outputs.size());
    return std::any_of(inputs, inputs + schedule_.kernel.inputs.size(),
                       [&](const void* input) { return std::ranges::find(all, input) != all.end(); });
  }

  Schedule schedule_;
  KernelText text_;
  MovedBytes moved_;
  int64_t grain_;
  std::shared_ptr<const MachineCode> code_;
  void* rows_ = nullptr;
  std::vector<void*> finishes_;
  Work fixed_;  // where no size is dynamic
};

// The kernels of real numbers that a kernel is computed by, one after the other; none if there are none.
std::vector<Kernel> real_parts_of(const Kernel& kernel, std::string& why) {
  const auto real = with_complex_parts(kernel, why);
  return real ? kernels_without_scattered_sums(*real) : std::vector<Kernel>{};
}

std::vector<Kernel> real_parts_of(const Kernel& kernel) {
  std::string why;
  auto parts = real_parts_of(kernel, why);
  DIPTYCH_ASSERT(!parts.empty(), "kernel '{}' has no code: {}", kernel.name, why);
  return parts;
}

Schedule schedule_of(const Kernel& kernel, const CodeTarget& target) {
  std::string why;
  auto schedule = make_schedule(kernel, why, target);
  DIPTYCH_ASSERT(schedule.has_value(), "kernel '{}' has no code: {}", kernel.name, why);
  return std::move(*schedule);
}

// Kernels that run one after the other.
class KernelSequence final : public CompiledKernel {
 public:
  KernelSequence(const std::vector<Kernel>& parts, const CodeTarget& target) {
    for (const Kernel& part : parts) parts_.push_back(std::make_unique<JitKernel>(schedule_of(part, target)));
  }

  void run(void* const* inputs, void* const* outputs, const std::vector<int64_t>& symbols) const override {
    for (const auto& part : parts_) part->run(inputs, outputs, symbols);
  }

 private:
  std::vector<std::unique_ptr<const CompiledKernel>> parts_;
};

std::shared_ptr<const CompiledKernel> make_code(const Kernel& kernel, const CodeTarget& target) {
  const auto parts = real_parts_of(kernel);
  if (parts.size() == 1) return std::make_shared<const JitKernel>(schedule_of(parts[0], target));
  return std::make_shared<const KernelSequence>(parts, target);
}

// Kernels that are in use, by their text.
struct KernelTable {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<const CompiledKernel>> kernels;
};

KernelTable& kernel_table() {
  static auto* const table = new KernelTable;  // executables that are static objects may outlive one that is destroyed
  return *table;
}

}  // namespace

std::optional<std::string> codegen_problem(const Kernel& kernel, const CodeTarget& target) {
  std::string why;
  const auto parts = real_parts_of(kernel, why);
  const bool has_code =
      std::ranges::all_of(parts, [&](const Kernel& part) { return make_schedule(part, why, target).has_value(); });
  return has_code && !parts.empty() ? std::nullopt : std::optional(std::move(why));
}

std::vector<std::string> llvm_modules(const Kernel& kernel, const CodeTarget& target) {
  std::vector<std::string> texts;
  for (const Kernel& part : real_parts_of(kernel)) {
    texts.push_back(write_kernel(schedule_of(part, target)).text);
  }
  return texts;
}

std::string llvm_text(const Kernel& kernel) {
  std::string all;
  for (const std::string& module : llvm_modules(kernel)) all += module;
  return all;
}

std::shared_ptr<const CompiledKernel> compile_kernel(const Kernel& kernel, const CodeTarget& target) {
  Kernel unnamed = kernel;
  unnamed.name = "kernel";
  // Equal for kernels that are one but for their names.
  const std::string text = fmt::format("{} {} {} {}\n{}", target.vector_bytes, target.has_sleef,
                                       target.has_nontemporal_stores, least_nontemporal_bytes(), print(unnamed));
  auto& table = kernel_table();
  {
    const std::lock_guard lock(table.mutex);
    const auto found = table.kernels.find(text);
    if (found != table.kernels.end()) {
      if (auto made = found->second.lock()) return made;
    }
  }
  auto made = make_code(kernel, target);
  const std::lock_guard lock(table.mutex);
  std::erase_if(table.kernels, [](const auto& entry) { return entry.second.expired(); });
  auto& entry = table.kernels[text];
  if (auto other = entry.lock()) return other;  // another thread was first
  entry = made;
  return made;
}

}  // namespace diptych::detail
