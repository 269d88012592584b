#include "diptych/backends/native/codegen/compiled_kernel.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/alloc_cpu.h>

#include <map>
#include <mutex>

#include "diptych/backends/native/codegen/kernel_text.h"
#include "diptych/backends/native/codegen/schedule.h"
#include "diptych/backends/native/jit/jit.h"
#include "diptych/backends/native/kernel/print.h"
#include "diptych/base/error.h"

namespace diptych::detail {
namespace {

constexpr int64_t kGrain = 32768;  // points that are worth a thread, as in ATen

// Memory of a thread that grows and is used again, aligned to a cache line.
class ThreadMemory {
 public:
  ThreadMemory() = default;
  ThreadMemory(const ThreadMemory&) = delete;
  ThreadMemory& operator=(const ThreadMemory&) = delete;
  ~ThreadMemory() { c10::free_cpu(data_); }
  void* get(int64_t bytes) {
    if (bytes > size_) {
      c10::free_cpu(data_);
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

class JitKernel final : public CompiledKernel {
 public:
  explicit JitKernel(const Schedule& schedule) {
    const std::string& name = schedule.kernel.name;
    const KernelText code = write_kernel(schedule);
    code_ = compile_llvm(code.text, name);
    rows_ = reinterpret_cast<Rows*>(code_->address(name));
    for (size_t i = 0; i < code.finish_counts.size(); ++i) {
      finishes_.push_back(
          {reinterpret_cast<Finish*>(code_->address(fmt::format("{}_finish_{}", name, i))), code.finish_counts[i]});
    }
    memory_bytes_ = code.memory_bytes;
    partial_bytes_ = schedule.partial_bytes;
    chunks_ = schedule.chunks;
    num_rows_ = schedule.rows;
    int64_t points = 1;
    for (size_t d = 0; d < schedule.kernel.extents.size(); ++d) points *= schedule.kernel.extents[d].factor;
    points_per_row_ = std::max<int64_t>(1, points / std::max<int64_t>(1, num_rows_));
  }

  void run(void* const* inputs, void* const* outputs) const override {
    if (chunks_ == 0) {
      const int64_t grain = std::max<int64_t>(1, kGrain / points_per_row_);
      in_parallel(num_rows_, grain,
                  [&](int64_t begin, int64_t end) { rows_(inputs, outputs, begin, end, nullptr, memory(), 0); });
      return;
    }
    // The calling thread's: it waits here until all chunks are done.
    static thread_local ThreadMemory partial_memory;
    char* partial = static_cast<char*>(partial_memory.get(chunks_ * partial_bytes_));
    const int64_t rows_of_chunk = (num_rows_ + chunks_ - 1) / chunks_;
    const int64_t grain = std::max<int64_t>(1, kGrain / (points_per_row_ * std::max<int64_t>(1, rows_of_chunk)));
    in_parallel(chunks_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t first = chunk * num_rows_ / chunks_, last = (chunk + 1) * num_rows_ / chunks_;
        rows_(inputs, outputs, first, last, partial + chunk * partial_bytes_, memory(), 0);
      }
    });
    for (const auto& [finish, count] : finishes_) {
      in_parallel(count, 1, [&, finish = finish](int64_t begin, int64_t end) {
        finish(inputs, outputs, begin, end, partial, 0);
      });
    }
  }

 private:
  using Rows = void(void* const*, void* const*, int64_t, int64_t, void*, void*, int64_t);
  using Finish = void(void* const*, void* const*, int64_t, int64_t, void*, int64_t);

  template <class Body>
  static void in_parallel(int64_t count, int64_t grain, const Body& body) {
    if (count <= grain) return body(0, count);
    at::parallel_for(0, count, grain, body);
  }

  void* memory() const {
    static thread_local ThreadMemory row_memory;
    return memory_bytes_ == 0 ? nullptr : row_memory.get(memory_bytes_);
  }

  std::shared_ptr<const MachineCode> code_;
  Rows* rows_ = nullptr;
  std::vector<std::pair<Finish*, int64_t>> finishes_;
  int64_t memory_bytes_ = 0, partial_bytes_ = 0, chunks_ = 0, num_rows_ = 0, points_per_row_ = 1;
};

Schedule schedule_of(const Kernel& kernel) {
  std::string why;
  auto schedule = make_schedule(kernel, why);
  DIPTYCH_ASSERT(schedule.has_value(), "kernel '{}' has no code: {}", kernel.name, why);
  return std::move(*schedule);
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

std::optional<std::string> codegen_problem(const Kernel& kernel) {
  std::string why;
  if (make_schedule(kernel, why)) return std::nullopt;
  return why;
}

std::string llvm_text(const Kernel& kernel) { return write_kernel(schedule_of(kernel)).text; }

std::shared_ptr<const CompiledKernel> compile_kernel(const Kernel& kernel) {
  Kernel unnamed = kernel;
  unnamed.name = "kernel";
  const std::string text = print(unnamed);  // equal for kernels that are one but for their names
  auto& table = kernel_table();
  {
    const std::lock_guard lock(table.mutex);
    const auto found = table.kernels.find(text);
    if (found != table.kernels.end()) {
      if (auto made = found->second.lock()) return made;
    }
  }
  auto made = std::make_shared<const JitKernel>(schedule_of(kernel));
  const std::lock_guard lock(table.mutex);
  std::erase_if(table.kernels, [](const auto& entry) { return entry.second.expired(); });
  auto& entry = table.kernels[text];
  if (auto other = entry.lock()) return other;  // another thread was first
  entry = made;
  return made;
}

}  // namespace diptych::detail
