/* A library of NVIDIA's name; what it has is in fake_cuda.c, which it needs. */
int fake_stub(void);
int fake_stub(void) { return 0; }
