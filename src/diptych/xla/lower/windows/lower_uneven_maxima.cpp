// Maxima of windows of different sizes, as adaptive pooling has where sizes do not divide.
#include <algorithm>
#include <limits>

#include "diptych/xla/hlo/lowering_windows.h"
#include "diptych/xla/hlo/reduction_parts.h"

namespace diptych::detail {
namespace {

/// Windows over the last dimensions of planes, visited element by element in eager's order.
class UnevenMaxima {
 public:
  UnevenMaxima(HloWriter& writer, const Hlo& planes, const std::vector<int64_t>& outputs)
      : writer_(writer), planes_(planes), sizes_{planes.sizes[0]}, offsets_(outputs.size(), 0) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      stretches_.push_back(adaptive_stretches(planes.sizes[i + 1], outputs[i]));
      sizes_.push_back(outputs[i]);
    }
  }

  // The first of equal elements stays, and the last NaN.
  std::pair<Hlo, Hlo> run() {
    Hlo largest = writer_.constant(lowest_of(planes_.dtype), planes_.dtype, sizes_), places = places_now();
    do {
      const Hlo candidate = elements_now();
      Hlo is_larger = writer_.compare("GT", candidate, largest);
      if (at::isFloatingType(candidate.dtype))
        is_larger = writer_.binary("or", is_larger, where_nan(writer_, candidate));
      largest = writer_.select(is_larger, candidate, largest);
      places = writer_.select(is_larger, places_now(), places);
    } while (advance());
    return {largest, places};
  }

 private:
  // Positions along dimension `i`. A shorter window meets its last element again, which changes nothing: it is not
  // larger than itself, and where it is NaN so is what was found.
  std::vector<int64_t> positions(size_t i) const {
    std::vector<int64_t> list;
    for (const Stretch& stretch : stretches_[i]) list.push_back(std::min(stretch.begin + offsets_[i], stretch.end - 1));
    return list;
  }
  Hlo elements_now() const {
    Hlo x = planes_;
    for (size_t i = 0; i < offsets_.size(); ++i) {
      x = writer_.take(x, writer_.constant_list(positions(i), at::kInt), static_cast<int64_t>(i) + 1);
    }
    return x;
  }
  Hlo places_now() const {
    Hlo sum = writer_.constant(0, at::kLong, sizes_);
    int64_t stride = 1;
    for (size_t i = offsets_.size(); i-- > 0; stride *= planes_.sizes[i + 1]) {
      auto list = positions(i);
      for (int64_t& position : list) position *= stride;
      const Hlo table = writer_.constant_list(list, at::kLong);
      sum = writer_.binary("add", sum, writer_.broadcast(table, sizes_, {static_cast<int64_t>(i) + 1}));
    }
    return sum;
  }
  // To the next element of the largest window, the last dimension fastest; false behind the last.
  bool advance() {
    for (size_t i = offsets_.size(); i-- > 0;) {
      const auto longest =
          std::max_element(stretches_[i].begin(), stretches_[i].end(),
                           [](const auto& a, const auto& b) { return a.end - a.begin < b.end - b.begin; });
      if (++offsets_[i] < longest->end - longest->begin) return true;
      offsets_[i] = 0;
    }
    return false;
  }

  HloWriter& writer_;
  Hlo planes_;
  std::vector<int64_t> sizes_;  ///< of the result: planes, then windows
  std::vector<std::vector<Stretch>> stretches_;
  std::vector<int64_t> offsets_;
};

}  // namespace

std::vector<Hlo> uneven_maxima(const Lowering& node, size_t rank) {
  HloWriter& writer = node.writer();
  const auto sizes = node.sizes();
  const std::vector<int64_t> outputs(sizes.end() - static_cast<int64_t>(rank), sizes.end());
  const auto [values, places] = UnevenMaxima(writer, as_planes(writer, node.tensor(0), rank), outputs).run();
  return {writer.reshape(values, sizes), writer.reshape(places, node.sizes(1))};
}

}  // namespace diptych::detail
