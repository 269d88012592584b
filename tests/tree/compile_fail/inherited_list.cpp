// A class that adds a field to a base class and has no list of its own.
#include "diptych/tree/tree.h"

struct ListedBase {
  at::Tensor w;
  DIPTYCH_FIELDS(w)
};
struct DerivedParams : ListedBase {
  at::Tensor b;
#ifdef MENDED
  DIPTYCH_FIELDS(w, b)
#endif
};

void visit(DerivedParams& params) {
  diptych::LeafVisitor visitor;
  diptych::visit_leaves(params, diptych::Path("params"), visitor);
}
