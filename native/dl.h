/* dlopen and its family in the versions that every glibc since Node's floor has:
 * newer ones moved them from libdl into libc under a newer version. */
#ifndef SBX_DL_H
#define SBX_DL_H

#include <dlfcn.h>

#if defined(__SANITIZE_ADDRESS__)
#define SBX_DL_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SBX_DL_SANITIZED 1
#endif
#endif

/* Under a sanitizer its own wrappers must be found. */
#ifndef SBX_DL_SANITIZED
#if defined(__x86_64__)
#define SBX_DL_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define SBX_DL_VERSION "GLIBC_2.17"
#endif
#endif

#ifdef SBX_DL_VERSION
__asm__(".symver dlopen,dlopen@" SBX_DL_VERSION);
__asm__(".symver dlsym,dlsym@" SBX_DL_VERSION);
__asm__(".symver dlerror,dlerror@" SBX_DL_VERSION);
__asm__(".symver dlclose,dlclose@" SBX_DL_VERSION);
#endif

/* The sanitizers do not bear a library that sees its own symbols first. */
#ifdef SBX_DL_SANITIZED
enum { SBX_DL_FLAGS = RTLD_NOW | RTLD_LOCAL };
#else
enum { SBX_DL_FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND };
#endif

#endif
