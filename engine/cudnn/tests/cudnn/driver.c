/* NVIDIA's driver without a device: functions that cuDNN looks up when it plans. Kernels that it compiles
 * are accepted, everything else answers "no device". */

#define NO_DEVICE(name) int name(void) { return 100; }
#define ACCEPTED(name) int name(void) { return 0; }
#define HANDED_OUT(name) \
    int name(void **place) { \
        *place = &device; \
        return 0; \
    }

static int device;

HANDED_OUT(cuLibraryLoadData)
HANDED_OUT(cuLibraryLoadFromFile)
HANDED_OUT(cuLibraryGetKernel)
HANDED_OUT(cuKernelGetFunction)
HANDED_OUT(cuModuleLoadData)
HANDED_OUT(cuModuleGetFunction)
ACCEPTED(cuLibraryUnload)
ACCEPTED(cuModuleUnload)
ACCEPTED(cuKernelSetAttribute)

int cuKernelGetAttribute(int *value) {
    *value = 0;
    return 0;
}

NO_DEVICE(cuCtxGetCurrent)
NO_DEVICE(cuCtxGetLimit)
NO_DEVICE(cuCtxPopCurrent)
NO_DEVICE(cuCtxPushCurrent)
NO_DEVICE(cuDeviceGet)
NO_DEVICE(cuDeviceGetCount)
NO_DEVICE(cuDriverGetVersion)
NO_DEVICE(cuGetErrorName)
NO_DEVICE(cuGetErrorString)
NO_DEVICE(cuLaunchCooperativeKernel)
NO_DEVICE(cuLaunchKernel)
NO_DEVICE(cuLaunchKernelEx)
NO_DEVICE(cuLinkAddData)
NO_DEVICE(cuLinkComplete)
NO_DEVICE(cuLinkCreate)
NO_DEVICE(cuLinkDestroy)
NO_DEVICE(cuOccupancyMaxPotentialClusterSize)
NO_DEVICE(cuStreamGetCtx)
NO_DEVICE(cuTensorMapEncodeIm2col)
NO_DEVICE(cuTensorMapEncodeTiled)
