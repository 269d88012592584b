#include "diptych/xla/pjrt/pjrt_buffer.h"

#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include "diptych/base/check.h"
#include "diptych/xla/hlo/element_types.h"
#include "diptych/xla/hlo/hlo_writer.h"

namespace diptych::detail {
namespace {

// A tensor over memory that a buffer owns. Unlike from_blob's, it may be resized, as any result of an operator may.
at::Tensor tensor_over(std::shared_ptr<PjrtBuffer> buffer, void* data, at::IntArrayRef sizes, at::ScalarType dtype) {
  const size_t bytes = c10::multiply_integers(sizes) * c10::elementSize(dtype);
  auto* const owner = new std::shared_ptr<PjrtBuffer>(std::move(buffer));
  c10::DataPtr memory(
      data, owner, [](void* held) { delete static_cast<std::shared_ptr<PjrtBuffer>*>(held); }, at::kCPU);
  c10::Storage storage(c10::Storage::use_byte_size_t{}, bytes, std::move(memory), c10::GetCPUAllocator(),
                       /*resizable=*/true);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

void check_contiguous_on_host(const at::Tensor& tensor) {
  DIPTYCH_ASSERT(tensor.device().is_cpu() && tensor.is_contiguous(), "a buffer's tensor is not contiguous on the CPU");
}

}  // namespace

std::shared_ptr<PjrtBuffer> PjrtBuffer::transfer(std::shared_ptr<const PjrtClient> client, const at::Tensor& tensor,
                                                 size_t device, PJRT_HostBufferSemantics semantics) {
  check_contiguous_on_host(tensor);
  const PjrtApi& api = client->api();
  api.check_process();
  PJRT_Client_BufferFromHostBuffer_Args args{};
  args.client = client->get();
  args.data = tensor.const_data_ptr();
  args.type = element_type(tensor.scalar_type()).type;
  args.dims = tensor.sizes().data();
  args.num_dims = tensor.sizes().size();
  args.host_buffer_semantics = semantics;
  args.device = client->device(device);
  api.call(api.table().PJRT_Client_BufferFromHostBuffer, args, [&] {
    return fmt::format("passing a tensor of {} to a device", hlo_type(tensor.scalar_type(), tensor.sizes()));
  });
  const PjrtEventHandle done(args.done_with_host_buffer, {&api});  // nobody waits for it; see the callers
  return std::make_shared<PjrtBuffer>(std::move(client), args.buffer);
}

std::shared_ptr<PjrtBuffer> PjrtBuffer::from_tensor(std::shared_ptr<const PjrtClient> client, const at::Tensor& tensor,
                                                    size_t device) {
  auto buffer = transfer(std::move(client), tensor, device, PJRT_HostBufferSemantics_kImmutableZeroCopy);
  // The plugin may be done with the tensor's memory only when the buffer is destroyed; the buffer keeps it until then.
  buffer->source_ = tensor;
  return buffer;
}

std::shared_ptr<PjrtBuffer> PjrtBuffer::copy_from(std::shared_ptr<const PjrtClient> client, const at::Tensor& tensor,
                                                  size_t device) {
  return transfer(std::move(client), tensor, device, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall);
}

void PjrtBuffer::check_usable() const {
  client_->api().check_process();
  DIPTYCH_CHECK(!is_donated(),
                "[xla] a buffer of {} was donated to a program and holds no values any more; use that program's result",
                hlo_type(dtype(), sizes()));
}

PjrtEventHandle PjrtBuffer::ready_event() const {
  check_usable();
  const PjrtApi& api = client_->api();
  PJRT_Buffer_ReadyEvent_Args args{};
  args.buffer = get();
  api.call(api.table().PJRT_Buffer_ReadyEvent, args, "asking for a result");
  return {args.event, {&api}};
}

void PjrtBuffer::wait() const { client_->api().await(ready_event().release(), "computing a result"); }

bool PjrtBuffer::is_ready() const {
  const PjrtEventHandle event = ready_event();
  PJRT_Event_IsReady_Args args{};
  args.event = event.get();
  client_->api().call(client_->api().table().PJRT_Event_IsReady, args, "asking whether a result is computed");
  return args.is_ready;
}

bool PjrtBuffer::is_on_host() const {
  PJRT_Buffer_IsOnCpu_Args args{};
  args.buffer = get();
  client_->api().call(client_->api().table().PJRT_Buffer_IsOnCpu, args, "asking for a result's place");
  return args.is_on_cpu;
}

uintptr_t PjrtBuffer::address() const {
  wait();
  PJRT_Buffer_UnsafePointer_Args args{};
  args.buffer = get();
  client_->api().call(client_->api().table().PJRT_Buffer_UnsafePointer, args, "asking for a buffer's address");
  return args.buffer_pointer;
}

at::Tensor PjrtBuffer::to_tensor(std::shared_ptr<PjrtBuffer> buffer, at::IntArrayRef sizes, at::ScalarType dtype) {
  if (buffer->is_on_host()) {
    auto* const data = reinterpret_cast<void*>(buffer->address());  // NOLINT(performance-no-int-to-ptr)
    buffer->is_lent_ = true;
    return tensor_over(std::move(buffer), data, sizes, dtype);
  }
  at::Tensor tensor = at::empty(sizes, at::dtype(dtype));
  buffer->copy_to(tensor);
  return tensor;
}

void PjrtBuffer::copy_to(const at::Tensor& tensor) const {
  check_contiguous_on_host(tensor);
  check_usable();
  DIPTYCH_CHECK(tensor.scalar_type() == dtype() && tensor.sizes() == at::IntArrayRef(sizes()),
                "[xla] copying a buffer of {} got a tensor of {}; pass one of the buffer's sizes and dtype",
                hlo_type(dtype(), sizes()), hlo_type(tensor.scalar_type(), tensor.sizes()));
  const PjrtApi& api = client_->api();
  PJRT_Buffer_ToHostBuffer_Args args{};
  args.src = get();
  args.dst = tensor.mutable_data_ptr();
  args.dst_size = tensor.nbytes();
  api.call(api.table().PJRT_Buffer_ToHostBuffer, args, "copying a result from the device");
  api.await(args.event, "computing a result");
}

std::vector<int64_t> PjrtBuffer::sizes() const {
  PJRT_Buffer_Dimensions_Args args{};
  args.buffer = get();
  client_->api().call(client_->api().table().PJRT_Buffer_Dimensions, args, "asking for a buffer's sizes");
  return {args.dims, args.dims + args.num_dims};
}

at::ScalarType PjrtBuffer::dtype() const {
  PJRT_Buffer_ElementType_Args args{};
  args.buffer = get();
  client_->api().call(client_->api().table().PJRT_Buffer_ElementType, args, "asking for a buffer's element type");
  return element_type(args.type).dtype;
}

size_t PjrtBuffer::bytes_on_device() const {
  check_usable();
  PJRT_Buffer_OnDeviceSizeInBytes_Args args{};
  args.buffer = get();
  client_->api().call(client_->api().table().PJRT_Buffer_OnDeviceSizeInBytes, args, "asking for a buffer's memory");
  return args.on_device_size_in_bytes;
}

}  // namespace diptych::detail
