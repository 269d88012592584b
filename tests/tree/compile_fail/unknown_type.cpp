// A struct without a field list.
#include "diptych/tree/tree.h"

struct UnlistedParams {
  at::Tensor w;
#ifdef MENDED
  DIPTYCH_FIELDS(w)
#endif
};

void visit(UnlistedParams& params) {
  diptych::LeafVisitor visitor;
  diptych::visit_leaves(params, diptych::Path("params"), visitor);
}
