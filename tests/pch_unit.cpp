// Exists so that the tests have one target that owns their precompiled header.
