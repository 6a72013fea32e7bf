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
        "native/session/launcher_blob.S",
        "<!@(find native providers -name '*.c' -not -path 'native/launcher/*' | sort)",
        "<!@(find native/binding -name '*.cc' | sort)",
        "build/deps/cjson/cJSON.c",
        "build/deps/wslay/wslay_event.c",
        "build/deps/wslay/wslay_frame.c",
        "build/deps/wslay/wslay_net.c",
        "build/deps/wslay/wslay_queue.c",
      ],
      "include_dirs": [
        "build/deps/cjson",
        "build/deps/wslay",
        "<!(node -p \"require('path').dirname(require.resolve('node-addon-api'))\")",
      ],
      "defines": [
        "NAPI_VERSION=8",
        "HAVE_ARPA_INET_H",
        "HAVE_NETINET_IN_H",
        "ENABLE_LOCALES",
        "NDEBUG",
        "NODE_ADDON_API_DISABLE_DEPRECATED",
        "NAPI_DISABLE_CPP_EXCEPTIONS",
        "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS",
        "SBX_LAUNCHER_FILE=\"<(launcher)\"",
        "SBX_KIT_DIR=\"<(module_root_dir)/providers/kit/shell\"",
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
