{
  "variables": {
    "sanitize%": "",
    "launcher": "<(module_root_dir)/build/launcher/sbx-launcher",
  },
  "target_defaults": {
    "cflags": ["-Wall", "-Wextra", "-fvisibility=hidden"],
    "cflags_c": ["-std=gnu11", "-Wshadow"],
    "defines": ["_GNU_SOURCE", "_FILE_OFFSET_BITS=64"],
  },
  "targets": [
    {
      "target_name": "addon",
      "sources": [
        "native/launcher_blob.S",
        "<!@(find native providers -maxdepth 1 -name '*.c' | sort)",
        "<!@(find native/binding -name '*.cc' | sort)",
      ],
      "include_dirs": [
        "<!(node -p \"require('path').dirname(require.resolve('node-addon-api'))\")",
      ],
      "defines": [
        "NAPI_VERSION=8",
        "NODE_ADDON_API_DISABLE_DEPRECATED",
        "NAPI_DISABLE_CPP_EXCEPTIONS",
        "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS",
        "SBX_LAUNCHER_FILE=\"<(launcher)\"",
      ],
      "cflags!": ["-fno-omit-frame-pointer"],
      "cflags_cc": ["-std=c++17", "-fno-rtti", "-fno-exceptions"],
      "ldflags!": ["-rdynamic"],
      "ldflags": [
        "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,-z,noexecstack",
        "-Wl,--exclude-libs,ALL",
      ],
      "conditions": [
        ["sanitize!=''", {
          "cflags": ["-fsanitize=<(sanitize)", "-fno-omit-frame-pointer", "-g", "-O1"],
          "cflags!": ["-O3", "-fomit-frame-pointer"],
          "ldflags": ["-fsanitize=<(sanitize)"],
        }],
      ],
    },
  ],
}
