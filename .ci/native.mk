# The engine without Node: a library under the sanitizers, one program per
# C test, one per fuzz target.
#   make -f .ci/native.mk check     build and run the C tests
#   make -f .ci/native.mk fuzz      build the fuzzers (clang)
#   make -f .ci/native.mk analyze   gcc's static analyzer
OUT ?= build/native
CC ?= gcc
FUZZ_CC ?= clang
comma := ,
WARN := -Wall -Wextra -Wshadow
SAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined
CFLAGS := -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -g -O1 \
  -fno-omit-frame-pointer $(WARN)

# Fetched, not ours (.ci/fetch-deps): no warnings of theirs.
DEPS := build/deps
INCLUDES := -isystem $(DEPS)/cjson -isystem $(DEPS)/wslay
DEP_SOURCES := $(DEPS)/cjson/cJSON.c \
  $(addprefix $(DEPS)/wslay/wslay_,event.c frame.c net.c queue.c)
DEPS_HERE := $(DEPS)/.complete
# NDEBUG: wslay asserts what does not hold once memory is short.
DEP_FLAGS := -DHAVE_ARPA_INET_H -DHAVE_NETINET_IN_H -DENABLE_LOCALES -DNDEBUG
CFLAGS += $(INCLUDES)

SOURCES := $(sort $(wildcard native/*.c providers/*.c providers/*/*.c) \
  $(filter-out native/launcher/%,$(wildcard native/*/*.c)))
OBJECTS := $(SOURCES:%.c=$(OUT)/%.o)
DEP_OBJECTS := $(DEP_SOURCES:$(DEPS)/%.c=$(OUT)/deps/%.o)
TESTS := $(sort $(wildcard test/native/*_test.c))
PROGRAMS := $(TESTS:test/native/%.c=$(OUT)/%)
FUZZERS := $(sort $(wildcard test/fuzz/*.c))
LAUNCHER := $(OUT)/sbx-launcher
LAUNCHER_SOURCES := $(wildcard native/launcher/*.[chS] native/launcher/*/*.c) \
  native/remove.c native/remove.h

all: $(PROGRAMS)

$(LAUNCHER): $(LAUNCHER_SOURCES) .ci/build-launcher
	sh .ci/build-launcher $@

$(DEPS_HERE):
	bash .ci/fetch-deps

$(DEP_SOURCES): | $(DEPS_HERE)

$(OUT)/deps/%.o: $(DEPS)/%.c .ci/native.mk
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SAN) $(DEP_FLAGS) -w -c $< -o $@

$(OUT)/%.o: %.c | $(DEPS_HERE)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SAN) -MMD -MP -c $< -o $@

# The shell programs of the remote kit lie in it.
$(OUT)/providers/kit/scripts.o: $(wildcard providers/kit/shell/*.sh)

$(OUT)/launcher_blob.o: native/session/launcher_blob.S $(LAUNCHER)
	$(CC) -c -DSBX_LAUNCHER_FILE='"$(LAUNCHER)"' $< -o $@

$(OUT)/libsbx.a: $(OBJECTS) $(DEP_OBJECTS) $(OUT)/launcher_blob.o
	@rm -f $@
	ar rcs $@ $^

$(OUT)/%_test: test/native/%_test.c $(OUT)/libsbx.a $(LAUNCHER)
	$(CC) $(CFLAGS) $(SAN) -MMD -MP -I. $< $(OUT)/libsbx.a $(LINK) -luv -lcmocka -lpthread -o $@

# Lets each of these fail, one call after another.
$(OUT)/fault_test: LINK := $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc \
  strdup strndup pipe2 memfd_create socketpair uv_poll_init posix_spawn)

$(addprefix $(OUT)/,remote_fault_test http_fault_test parse_fault_test): \
  LINK := $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc strdup strndup)

# Small programs that the JavaScript tests run.
HELPERS := $(patsubst test/helpers/%.c,$(OUT)/%,$(wildcard test/helpers/*.c))

$(OUT)/%: test/helpers/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 $(WARN) $< -o $@

helpers: $(HELPERS)

# What these do to the machine, or it does for them in some time, is what they
# look at: one after another. The rest goes two at a time, the longest first.
ALONE := $(addprefix $(OUT)/,launcher_test launcher_quota_test \
  launcher_remove_test limits_test pause_test process_test session_test)
LONG := $(addprefix $(OUT)/,kit_test kit_run_test files_test archive_test \
  remote_fault_test)
PAIRED := $(LONG) $(filter-out $(ALONE) $(LONG),$(PROGRAMS))
RUN_TEST = SBX_LAUNCHER=$(LAUNCHER) xargs -n 1 -P $(1) sh -c '\
  "$$0" >"$$0.log" 2>&1 || { cat "$$0.log"; echo "FAILED $$0"; exit 1; }; \
  grep -E "^\[  PASSED" "$$0.log" | sed "s|^|$$(basename "$$0"): |"'

check: $(PROGRAMS) helpers
	@failed=0; \
	printf '%s\n' $(PAIRED) | $(call RUN_TEST,2) || failed=1; \
	printf '%s\n' $(ALONE) | $(call RUN_TEST,1) || failed=1; \
	exit $$failed

# The same library once more, as clang and the fuzzer want it.
FUZZ_LIBRARY := $(OUT)/fuzz/libsbx.a
FUZZ_SAN := address,undefined
$(FUZZ_LIBRARY): FORCE | $(LAUNCHER) $(DEPS_HERE)
	$(MAKE) -f .ci/native.mk OUT=$(@D) LAUNCHER=$(LAUNCHER) CC=$(FUZZ_CC) \
	  SAN=-fsanitize=fuzzer-no-link,$(FUZZ_SAN) $@

fuzz: $(FUZZERS:test/fuzz/%.c=$(OUT)/fuzz/%)

$(OUT)/fuzz/%: test/fuzz/%.c $(FUZZ_LIBRARY)
	$(FUZZ_CC) $(CFLAGS) -I. -fsanitize=fuzzer,$(FUZZ_SAN) -MMD -MP $< \
	  $(FUZZ_LIBRARY) -luv -o $@

# Leaks are LeakSanitizer's: gcc's analyzer loses pointers that are stored
# through an index.
analyze: | $(DEPS_HERE)
	@for f in $(SOURCES) $(wildcard native/launcher/*.c); do \
	  $(CC) -std=gnu11 -D_GNU_SOURCE -O1 -fanalyzer -Wno-analyzer-malloc-leak -Werror $(WARN) $(INCLUDES) \
	    -c $$f -o /dev/null || exit 1; done


.PHONY: all helpers check fuzz analyze FORCE
-include $(OBJECTS:.o=.d) $(PROGRAMS:=.d) $(FUZZERS:test/fuzz/%.c=$(OUT)/fuzz/%.d)
