// A pointer to a class that others may derive from.
#include <memory>

#include "diptych/tree/tree.h"

#ifdef MENDED
#define DIPTYCH_TEST_FINAL final
#else
#define DIPTYCH_TEST_FINAL
#endif

struct Layer DIPTYCH_TEST_FINAL {
  at::Tensor w;
  virtual ~Layer() = default;
  DIPTYCH_FIELDS(w)
};

void visit(std::shared_ptr<Layer>& layer) {
  diptych::LeafVisitor visitor;
  diptych::visit_leaves(layer, diptych::Path("layer"), visitor);
}
