#include "diptych/backends/xla/pjrt_program.h"

#include <algorithm>

#include "diptych/backends/xla/compile_options.h"
#include "diptych/backends/xla/program_cache.h"
#include "diptych/base/error.h"

namespace diptych::detail {
namespace {

std::string options_of(const PjrtClient& client, std::span<const size_t> devices) {
  std::vector<int> ids;
  for (const size_t device : devices) ids.push_back(client.device_id(device));
  return compile_options(client.platform(), ids);
}

PjrtLoadedExecutableHandle compile_module(const PjrtClient& client, std::string_view module, std::string_view options) {
  const PjrtApi& api = client.api();
  std::string code(module);
  constexpr std::string_view kFormat = "mlir";
  PJRT_Program program{};
  program.struct_size = sizeof(program);
  program.code = code.data();
  program.code_size = code.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  PJRT_Client_Compile_Args args{};
  args.client = client.get();
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  api.call(api.table().PJRT_Client_Compile, args, "compiling a program");
  return {args.executable, {&api}};
}

size_t count_outputs(const PjrtApi& api, PJRT_LoadedExecutable* executable) {
  const PjrtExecutableHandle inner = executable_of(api, executable);
  PJRT_Executable_NumOutputs_Args args{};
  args.executable = inner.get();
  api.call(api.table().PJRT_Executable_NumOutputs, args, "asking for a program's results");
  return args.num_outputs;
}

}  // namespace

PjrtProgram::PjrtProgram(std::shared_ptr<const PjrtClient> client, std::string_view module, PjrtProgramOptions options)
    : client_(std::move(client)), options_(std::move(options)), executable_(nullptr, {&client_->api()}) {
  client_->api().check_process();
  const std::string compilation = options_of(*client_, options_.devices);
  const ProgramCache cache(*client_, module, compilation);
  executable_ = cache.load();
  if (executable_ == nullptr) {
    executable_ = compile_module(*client_, module, compilation);
    cache.store(executable_.get());
  }
  num_outputs_ = count_outputs(client_->api(), executable_.get());
}

void PjrtProgram::check_inputs(const Buffers& inputs) const {
  client_->api().check_process();
  for (size_t i = 0; i < inputs.size(); ++i) {
    DIPTYCH_CHECK(
        !inputs[i]->is_donated(),
        "[xla] input {} of a program was donated to a program before, and holds no values any more; pass that "
        "program's result",
        i);
  }
}

// A tensor that lies over a buffer's memory would see the results that a program writes there.
std::vector<int64_t> PjrtProgram::not_donatable(const Buffers& inputs, std::span<const size_t> kept) const {
  std::vector<int64_t> numbers(kept.begin(), kept.end());
  for (const size_t i : options_.donated) {
    if (inputs.at(i)->is_lent_) numbers.push_back(static_cast<int64_t>(i));
  }
  return numbers;
}

PjrtProgram::Buffers PjrtProgram::run(const Buffers& inputs, std::span<const size_t> kept) const {
  check_inputs(inputs);
  const PjrtApi& api = client_->api();
  std::vector<PJRT_Buffer*> arguments;
  arguments.reserve(inputs.size());
  for (const auto& input : inputs) arguments.push_back(input->get());
  PJRT_Buffer* const* const argument_list = arguments.data();
  std::vector<PJRT_Buffer*> results(num_outputs_, nullptr);
  PJRT_Buffer** const result_list = results.data();
  const std::vector<int64_t> held = not_donatable(inputs, kept);
  PJRT_ExecuteOptions options{};
  options.struct_size = sizeof(options);
  options.non_donatable_input_indices = held.data();
  options.num_non_donatable_input_indices = held.size();
  PJRT_LoadedExecutable_Execute_Args args{};
  args.executable = executable_.get();
  args.options = &options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = arguments.size();
  args.output_lists = &result_list;
  api.call(api.table().PJRT_LoadedExecutable_Execute, args, "running a program");
  Buffers outputs;
  outputs.reserve(results.size());
  for (PJRT_Buffer* const result : results) outputs.push_back(std::make_shared<PjrtBuffer>(client_, result));
  for (const size_t i : options_.donated) {
    if (std::find(kept.begin(), kept.end(), i) == kept.end()) inputs[i]->is_donated_ = true;
  }
  return outputs;
}

}  // namespace diptych::detail
