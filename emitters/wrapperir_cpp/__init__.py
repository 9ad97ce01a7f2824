"""The C++ emitter of wrapperir: ahead-of-time libraries against PyTorch's stable C ABI."""
