"""What benchmarks measure with: figures, CPU times of processes, watched runs of the engine, readers of outputs."""
