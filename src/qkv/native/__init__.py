"""The CPU engine: a Transformer encoder in C++, one call for all layers, in fp32 or int8.

    encoder.cpp, tiles.h   the engine
    build.py               compiles it when the package is built, once for each kind of CPU
    library.py             loads the one for this CPU

Without it everything works, only slower: where no compiler was found, and on other processors, PyTorch does the work.
"""
