// The classes of the public interface, declared and no more: for headers that only pass them on. It includes nothing.
#pragma once

namespace at {
class Tensor;
}

namespace diptych {

// Compiled functions and pairs.
template <class F>
class Aot;
template <class Module>
class AotModule;
template <class Module>
class AotModuleImpl;
struct AotOptions;
struct CacheStats;
struct Pair;
class Signature;
struct StableHlo;

// Graphs.
class Graph;
struct GraphFile;
struct Joint;
struct Node;
class Op;
struct Slot;
struct Split;
struct TensorMeta;
struct Value;

// What runs them.
class Backend;
class Executable;
class LazyProgram;
class NativeGraph;
class Program;
struct Partitioner;

// Training.
class GradientTransform;
struct StepOptions;
class TrainingStep;

// Loops, branches and transforms.
struct CheckpointPolicy;
template <class F, class Fwd, class Bwd>
class CustomVjp;
struct ScanOptions;
template <class F>
class Vmap;
struct VmapOptions;
struct WhileOptions;

// Users' values.
struct Flattened;
struct LeafVisitor;
class Path;
template <class T>
struct Tree;
class TreeSpec;

// Errors.
class InternalError;
class UserError;

}  // namespace diptych
