#include "diptych/backends/xla/pjrt_client.h"

#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <map>
#include <mutex>

#include "diptych/base/error.h"

namespace diptych::detail {
namespace {

// CompileOptionsProto (xla/pjrt/proto/compile_options.proto) of one replica and one partition on the default device:
// executable_build_options = 3 {device_ordinal = 1: -1, num_replicas = 4: 1, num_partitions = 5: 1}. These field
// numbers are the wire format, which never changes, so no protobuf library is needed for it.
// env_option_overrides = 7 {key = 1: the option, value = 2 {bool_field = 2: false}}: by default the CPU's maximum and
// minimum drop a NaN that is their second operand, which ATen's hand on.
constexpr std::string_view kCompileOptions(
    "\x1a\x0f\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x01\x28\x01"
    "\x3a\x21\x0a\x1bxla_cpu_enable_fast_min_max\x12\x02\x10\x00",
    52);

struct TypeRow {
  at::ScalarType dtype;
  PJRT_Buffer_Type type;
};
constexpr TypeRow kTypes[] = {
    {at::kBool, PJRT_Buffer_Type_PRED},       {at::kChar, PJRT_Buffer_Type_S8},
    {at::kShort, PJRT_Buffer_Type_S16},       {at::kInt, PJRT_Buffer_Type_S32},
    {at::kLong, PJRT_Buffer_Type_S64},        {at::kByte, PJRT_Buffer_Type_U8},
    {at::kHalf, PJRT_Buffer_Type_F16},        {at::kBFloat16, PJRT_Buffer_Type_BF16},
    {at::kFloat, PJRT_Buffer_Type_F32},       {at::kDouble, PJRT_Buffer_Type_F64},
    {at::kComplexFloat, PJRT_Buffer_Type_C64}, {at::kComplexDouble, PJRT_Buffer_Type_C128},
};

// A tensor over memory that a buffer owns. Unlike from_blob's, it may be resized, as any result of an operator may.
at::Tensor tensor_over(std::shared_ptr<PjrtBuffer> buffer, void* data, at::IntArrayRef sizes, at::ScalarType dtype) {
  const size_t bytes = c10::multiply_integers(sizes) * c10::elementSize(dtype);
  auto* const owner = new std::shared_ptr<PjrtBuffer>(std::move(buffer));
  c10::DataPtr memory(data, owner, [](void* held) { delete static_cast<std::shared_ptr<PjrtBuffer>*>(held); }, at::kCPU);
  c10::Storage storage(c10::Storage::use_byte_size_t{}, bytes, std::move(memory), c10::GetCPUAllocator(), /*resizable=*/true);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

}  // namespace

PJRT_Buffer_Type pjrt_type(at::ScalarType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return row.type;
  }
  throw_user_error(fmt::format("[xla] got a tensor of dtype {}, which PJRT does not have; convert it to another dtype",
                               c10::toString(dtype)));
}

PjrtClient::PjrtClient(const PjrtApi& api) : api_(api) {
  PJRT_Client_Create_Args create{};
  api.call(api.table().PJRT_Client_Create, create, "opening the devices of the PJRT plugin");
  client_ = create.client;
  PJRT_Client_AddressableDevices_Args devices{};
  devices.client = client_;
  api.call(api.table().PJRT_Client_AddressableDevices, devices, "listing devices");
  devices_.assign(devices.addressable_devices, devices.addressable_devices + devices.num_addressable_devices);
  DIPTYCH_CHECK(!devices_.empty(), "[xla] the PJRT plugin '{}' has no device; check its driver", api.path());
}

PjrtClient::~PjrtClient() {
  PJRT_Client_Destroy_Args args{};
  args.client = client_;
  api_.destroy(api_.table().PJRT_Client_Destroy, args);
}

std::shared_ptr<const PjrtClient> PjrtClient::shared() {
  static std::mutex mutex;
  static auto& clients = *new std::map<std::string, std::shared_ptr<const PjrtClient>>();  // outlives static tensors
  const std::string path = find_pjrt_plugin();
  const std::lock_guard lock(mutex);
  auto& client = clients[path];
  if (client == nullptr) client = std::make_shared<const PjrtClient>(PjrtApi::load(path));
  return client;
}

PjrtBuffer::~PjrtBuffer() {
  PJRT_Buffer_Destroy_Args args{};
  args.buffer = buffer_;
  client_->api().destroy(client_->api().table().PJRT_Buffer_Destroy, args);
}

std::shared_ptr<PjrtBuffer> PjrtBuffer::from_tensor(std::shared_ptr<const PjrtClient> client, const at::Tensor& tensor) {
  const PjrtApi& api = client->api();
  PJRT_Client_BufferFromHostBuffer_Args args{};
  args.client = client->get();
  args.data = tensor.const_data_ptr();
  args.type = pjrt_type(tensor.scalar_type());
  args.dims = tensor.sizes().data();
  args.num_dims = tensor.sizes().size();
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
  args.device = client->device(0);
  api.call(api.table().PJRT_Client_BufferFromHostBuffer, args, "passing a tensor to the device");
  auto buffer = std::make_shared<PjrtBuffer>(client, args.buffer);
  buffer->source_ = tensor;
  // With these semantics the event may come only when the buffer is destroyed, so it is not waited for: the buffer
  // keeps the tensor until then.
  PJRT_Event_Destroy_Args gone{};
  gone.event = args.done_with_host_buffer;
  api.destroy(api.table().PJRT_Event_Destroy, gone);
  return buffer;
}

void PjrtBuffer::wait() const {
  const PjrtApi& api = client_->api();
  PJRT_Buffer_ReadyEvent_Args args{};
  args.buffer = buffer_;
  api.call(api.table().PJRT_Buffer_ReadyEvent, args, "asking for a result");
  api.await(args.event, "computing a result");
}

bool PjrtBuffer::is_on_host() const {
  PJRT_Buffer_IsOnCpu_Args args{};
  args.buffer = buffer_;
  client_->api().call(client_->api().table().PJRT_Buffer_IsOnCpu, args, "asking for a result's place");
  return args.is_on_cpu;
}

at::Tensor PjrtBuffer::to_tensor(std::shared_ptr<PjrtBuffer> buffer, at::IntArrayRef sizes, at::ScalarType dtype) {
  const PjrtApi& api = buffer->client_->api();  // lives as long as the process
  buffer->wait();
  if (buffer->is_on_host()) {
    PJRT_Buffer_UnsafePointer_Args args{};
    args.buffer = buffer->get();
    api.call(api.table().PJRT_Buffer_UnsafePointer, args, "reading a result in place");
    auto* const data = reinterpret_cast<void*>(args.buffer_pointer);  // NOLINT(performance-no-int-to-ptr)
    return tensor_over(std::move(buffer), data, sizes, dtype);
  }
  at::Tensor tensor = at::empty(sizes, at::dtype(dtype));
  PJRT_Buffer_ToHostBuffer_Args args{};
  args.src = buffer->get();
  args.dst = tensor.mutable_data_ptr();
  args.dst_size = tensor.nbytes();
  api.call(api.table().PJRT_Buffer_ToHostBuffer, args, "copying a result from the device");
  api.await(args.event, "copying a result from the device");
  return tensor;
}

PjrtProgram::PjrtProgram(std::shared_ptr<const PjrtClient> client, std::string_view module) : client_(std::move(client)) {
  const PjrtApi& api = client_->api();
  std::string code(module);
  constexpr std::string_view kFormat = "mlir";
  PJRT_Program program{};
  program.struct_size = sizeof(program);
  program.code = code.data();
  program.code_size = code.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  PJRT_Client_Compile_Args args{};
  args.client = client_->get();
  args.program = &program;
  args.compile_options = kCompileOptions.data();
  args.compile_options_size = kCompileOptions.size();
  api.call(api.table().PJRT_Client_Compile, args, "compiling a program");
  executable_ = args.executable;
  PJRT_LoadedExecutable_GetExecutable_Args get{};
  get.loaded_executable = executable_;
  api.call(api.table().PJRT_LoadedExecutable_GetExecutable, get, "asking for a program");
  PJRT_Executable_NumOutputs_Args outputs{};
  outputs.executable = get.executable;
  api.call(api.table().PJRT_Executable_NumOutputs, outputs, "asking for a program's results");
  num_outputs_ = outputs.num_outputs;
  PJRT_Executable_Destroy_Args gone{};
  gone.executable = get.executable;
  api.destroy(api.table().PJRT_Executable_Destroy, gone);
}

PjrtProgram::~PjrtProgram() {
  if (executable_ == nullptr) return;
  PJRT_LoadedExecutable_Destroy_Args args{};
  args.executable = executable_;
  client_->api().destroy(client_->api().table().PJRT_LoadedExecutable_Destroy, args);
}

std::vector<std::shared_ptr<PjrtBuffer>> PjrtProgram::run(const std::vector<std::shared_ptr<PjrtBuffer>>& inputs) const {
  const PjrtApi& api = client_->api();
  std::vector<PJRT_Buffer*> arguments;
  arguments.reserve(inputs.size());
  for (const auto& input : inputs) arguments.push_back(input->get());
  PJRT_Buffer* const* const argument_list = arguments.data();
  std::vector<PJRT_Buffer*> results(num_outputs_, nullptr);
  PJRT_Buffer** const result_list = results.data();
  PJRT_ExecuteOptions options{};
  options.struct_size = sizeof(options);
  PJRT_LoadedExecutable_Execute_Args args{};
  args.executable = executable_;
  args.options = &options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = arguments.size();
  args.output_lists = &result_list;
  api.call(api.table().PJRT_LoadedExecutable_Execute, args, "running a program");
  std::vector<std::shared_ptr<PjrtBuffer>> outputs;
  outputs.reserve(results.size());
  for (PJRT_Buffer* const result : results) outputs.push_back(std::make_shared<PjrtBuffer>(client_, result));
  return outputs;
}

}  // namespace diptych::detail
