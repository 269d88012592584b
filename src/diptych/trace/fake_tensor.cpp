#include "diptych/trace/fake_tensor.h"

#include <ATen/EmptyTensor.h>
#include <ATen/FunctionalTensorWrapper.h>

#include <typeinfo>
#include <utility>

#include "diptych/base/check.h"
#include "diptych/ops/dispatch_keys.h"

namespace diptych::detail {
namespace {

// All fake tensors of a device share a storage of no bytes. Autograd needs a storage, but aliasing is tracked by
// functionalization's own storages.
c10::Storage empty_storage(c10::Device device) {
  static auto* mutex = new std::mutex();
  static auto* storages = new std::unordered_map<std::string, c10::Storage>();
  if (device == c10::Device(c10::kCPU)) {
    static auto* cpu =
        new c10::Storage(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, device), nullptr, false);
    return *cpu;
  }
  const std::lock_guard<std::mutex> lock(*mutex);
  auto& storage = (*storages)[device.str()];
  if (!storage)
    storage = c10::Storage(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, device), nullptr, false);
  return storage;
}

c10::DispatchKeySet fake_keys(c10::Device device) {
  if (device.is_cpu()) return c10::DispatchKeySet({kFakeKey, c10::DispatchKey::CPU});
  return c10::DispatchKeySet({kFakeKey, c10::computeDispatchKey(std::nullopt, c10::kStrided, device)});
}

struct KeysOf : c10::TensorImpl {
  static void remove(c10::TensorImpl& tensor, c10::DispatchKey key) {
    c10::DispatchKeySet& keys = tensor.*(&KeysOf::key_set_);
    keys = keys.remove(key);
  }
};

template <class Version>
c10::intrusive_ptr<c10::TensorImpl> shallow_copy(const FakeTensorImpl& fake, Version&& version, bool allow_change) {
  auto copy = c10::make_intrusive<FakeTensorImpl>(fake.meta(), fake.device(), fake.trace_id, fake.value);
  copy->set_version_counter(std::forward<Version>(version));
  copy->set_allow_tensor_metadata_change(allow_change);
  return copy;
}

}  // namespace

FakeTensorImpl::FakeTensorImpl(at::Tensor meta, c10::Device device, uint64_t trace, Value graph_value)
    : TensorImpl(fake_keys(device), meta.dtype(), device),
      trace_id(trace),
      value(graph_value),
      meta_(std::move(meta)),
      storage_size_(static_cast<int64_t>(meta_.storage().nbytes() / meta_.itemsize())) {
  storage_ = empty_storage(device);
  set_sizes_and_strides(meta_.sizes(), meta_.strides(), meta_.storage_offset());
}

FakeTensorImpl::FakeTensorImpl(const ResultShape& shape, int64_t storage_size, c10::Device device, uint64_t trace,
                               Value graph_value)
    : TensorImpl(fake_keys(device), c10::scalarTypeToTypeMeta(shape.dtype), device),
      trace_id(trace),
      value(graph_value),
      storage_size_(storage_size) {
  storage_ = empty_storage(device);
  set_sizes_and_strides(shape.sizes, shape.strides, shape.offset);
}

const at::Tensor& FakeTensorImpl::meta() const {
  if (!meta_.defined()) {
    meta_ = at::detail::empty_strided_meta({storage_size_}, {1}, c10::typeMetaToScalarType(dtype()));
    meta_.unsafeGetTensorImpl()->set_sizes_and_strides(sizes(), strides(), storage_offset());
  }
  return meta_;
}

c10::intrusive_ptr<c10::TensorImpl> FakeTensorImpl::shallow_copy_and_detach(const c10::VariableVersion& version_counter,
                                                                            bool allow_tensor_metadata_change) const {
  return shallow_copy(*this, version_counter, allow_tensor_metadata_change);
}

c10::intrusive_ptr<c10::TensorImpl> FakeTensorImpl::shallow_copy_and_detach(c10::VariableVersion&& version_counter,
                                                                            bool allow_tensor_metadata_change) const {
  return shallow_copy(*this, std::move(version_counter), allow_tensor_metadata_change);
}

namespace {

// The fake tensors of the traces that this thread is inside of. A formula of a gradient may hold a reference to the
// sizes of a stand-in, and still read it after an in-place operator has exchanged the stand-in's fake tensor.
thread_local std::vector<at::Tensor> kept_fakes;

at::Tensor kept(at::Tensor fake, uint64_t trace_id) {
  return trace_id == kNoTrace ? fake : kept_fakes.emplace_back(std::move(fake));
}

}  // namespace

at::Tensor make_fake(at::Tensor meta, c10::Device device, uint64_t trace_id, Value value) {
  return kept(at::detail::make_tensor<FakeTensorImpl>(std::move(meta), device, trace_id, value), trace_id);
}

at::Tensor make_fake(const ResultShape& shape, int64_t storage_size, c10::Device device, uint64_t trace_id,
                     Value value) {
  return kept(at::detail::make_tensor<FakeTensorImpl>(shape, storage_size, device, trace_id, value), trace_id);
}

void release_fakes() { kept_fakes.clear(); }

FakeTensorImpl* as_fake(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (impl->key_set().has(c10::DispatchKey::Functionalize)) {
    DIPTYCH_CHECK(typeid(*impl) == typeid(at::FunctionalTensorWrapper),
                  "[trace] the traced function sets the data of a tensor that it captures to a tensor that it computes "
                  "(w.data = ...), which a graph can't do; use w.copy_() under no_grad");
    const at::Tensor& inner = at::functionalization::impl::unsafeGetFunctionalWrapper(tensor)->value();
    if (!inner.defined()) return nullptr;
    impl = inner.unsafeGetTensorImpl();
  }
  return impl->key_set().has(kFakeKey) ? static_cast<FakeTensorImpl*>(impl) : nullptr;
}

bool is_stand_in(const at::Tensor& tensor) { return as_fake(tensor) != nullptr; }

namespace {
thread_local GivenStandIns* given_here = nullptr;
}  // namespace

GivenStandIns::GivenStandIns() : outer_(std::exchange(given_here, this)) {}
GivenStandIns::~GivenStandIns() { given_here = outer_; }
void GivenStandIns::add(const at::Tensor& stand_in) { given_.emplace_back(stand_in.getIntrusivePtr()); }

std::vector<at::Tensor> GivenStandIns::alive(const Weak& given) {
  std::vector<at::Tensor> found;
  for (const auto& one : given) {
    if (auto kept = one.lock()) found.emplace_back(std::move(kept));
  }
  return found;
}

// Only mutable access to the data is refused, since autograd reads a wrapper's device through a const pointer. Python's
// new() and new_tensor() look for the backend among a tensor's keys, where kFakeKey would confuse them; the wrapper can
// lose it, since the thread includes the key while a trace runs, and the fake tensor inside keeps it.
void look_dense(const at::Tensor& stand_in) {
  if (!stand_in.defined() || !at::functionalization::impl::isFunctionalTensor(stand_in)) return;
  if (given_here != nullptr) given_here->add(stand_in);
  stand_in.storage().unsafeGetStorageImpl()->set_throw_on_mutable_data_ptr();
  KeysOf::remove(*stand_in.unsafeGetTensorImpl(), kFakeKey);
}

at::Tensor meta_like(const at::Tensor& tensor) {
  const at::Tensor meta = at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
  if (tensor.storage_offset() != 0) meta.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  return meta;
}

std::vector<std::optional<at::Tensor>> optional_tensors(const c10::IValue& list) {
  std::vector<std::optional<at::Tensor>> tensors;
  for (const c10::IValue& element : list.toListRef()) {
    tensors.push_back(element.isNone() ? std::nullopt : std::optional(element.toTensor()));
  }
  return tensors;
}

}  // namespace diptych::detail
