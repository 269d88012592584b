// Exists so that the tests' precompiled headers have targets that own them.
