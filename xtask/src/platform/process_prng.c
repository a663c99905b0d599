/* The one function of bcryptprimitives.dll that Rust's standard library needs, for releases of wine that lack it. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID bytes, ULONG len);

BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T len) {
    return SystemFunction036(bytes, (ULONG)len);
}
