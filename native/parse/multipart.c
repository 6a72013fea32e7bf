/* Multipart bodies. The delimiter begins with the only CR in it: after a false
 * start the search can go on with the byte that did not match. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "multipart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <uv.h>

#include "../utf8.h"

enum state {
  SEARCH,  /* a part's bytes, or the preamble, up to a delimiter */
  COUNTED, /* a part's bytes, by their number */
  MATCH,   /* the delimiter must be next */
  BEHIND,  /* what follows a delimiter, up to its line's end */
  HEAD,
  CLOSED
};

struct sbx_multipart {
  struct sbx_multipart_events events;
  char delimiter[4 + SBX_MULTIPART_BOUNDARY_MAX];
  size_t delimiter_len;
  enum state state;
  size_t matched; /* of the delimiter */
  bool inside;    /* a part is open */
  uint64_t left;  /* COUNTED */
  char behind[2];
  unsigned behind_len;
  struct sbx_text head;
  unsigned parts;
  int failed;
};

/* ---- parameters of a header's value ---- */

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

/* Bytes of a value that may be longer than its place. */
struct room {
  char* out; /* NULL: the value of another parameter */
  size_t size;
  size_t len;
};

static void put(struct room* r, char c) {
  if (r->out != NULL && r->len + 1 < r->size) r->out[r->len] = c;
  r->len++;
}

/* Each reads one value and returns where it stops. */

static const char* quoted(const char* at, struct room* r) {
  for (; *at != '\0' && *at != '"'; at++) {
    if (*at == '\\' && (at[1] == '"' || at[1] == '\\')) at++;
    put(r, *at);
  }
  return *at == '"' ? at + 1 : at;
}

static const char* token(const char* at, struct room* r) {
  for (; *at != '\0' && *at != ';' && !is_blank(*at); at++) put(r, *at);
  return at;
}

static const char* skip_blanks(const char* at) {
  return at + strspn(at, " \t");
}

/* Of `; name="value"` behind a value: copies the value of `name`, raw. */
static bool parameter(const char* value, const char* name, char* out,
                      size_t size) {
  const char* at = value + strcspn(value, ";");

  while (*at == ';') {
    const char* key = skip_blanks(at + 1);
    size_t len = strcspn(key, "=; \t");
    bool wanted = strlen(name) == len && strncasecmp(key, name, len) == 0;
    struct room r = {wanted ? out : NULL, size, 0};

    at = skip_blanks(key + len);
    if (*at == '=') {
      at = skip_blanks(at + 1);
      at = *at == '"' ? quoted(at + 1, &r) : token(at, &r);
    }
    if (wanted && r.len < size) out[r.len] = '\0';
    if (wanted) return r.len < size;
    at += strcspn(at, ";");
  }
  return false;
}

static int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "utf-8''a%20b", in place. */
static bool decode_extended(char* text) {
  const char* from = text + 7;
  char* to = text;

  if (strncasecmp(text, "utf-8''", 7) != 0) return false;
  while (*from != '\0') {
    int high = *from == '%' ? hex(from[1]) : 0;
    int low = *from == '%' && high >= 0 ? hex(from[2]) : 0;

    if (high < 0 || low < 0) return false;
    if (*from == '%' && high == 0 && low == 0) return false;
    *to++ = *from == '%' ? (char) (high << 4 | low) : *from;
    from += *from == '%' ? 3 : 1;
  }
  *to = '\0';
  return sbx_utf8_valid(text, (size_t) (to - text));
}

/* ---- headers ---- */

struct fields {
  char name[1024];
  char filename[4 * 4096];
  char type[256];
  int64_t length;
};

static const char* field_value(const char* line, const char* name) {
  size_t len = strlen(name);

  if (strncasecmp(line, name, len) != 0 || line[len] != ':') return NULL;
  return skip_blanks(line + len + 1);
}

static int read_length(const char* value, int64_t* out) {
  int64_t n = 0;
  size_t digits = strspn(value, "0123456789");

  if (digits == 0 || digits > 18 || *skip_blanks(value + digits) != '\0')
    return UV_EPROTO;
  for (size_t i = 0; i < digits; i++) n = n * 10 + (value[i] - '0');
  *out = n;
  return 0;
}

static void read_disposition(const char* value, struct fields* f) {
  char extended[sizeof(f->filename)];

  if (!parameter(value, "name", f->name, sizeof(f->name))) f->name[0] = '\0';
  if (!parameter(value, "filename", f->filename, sizeof(f->filename)))
    f->filename[0] = '\0';
  if (parameter(value, "filename*", extended, sizeof(extended)) &&
      decode_extended(extended))
    snprintf(f->filename, sizeof(f->filename), "%s", extended);
}

static int read_field(const char* line, struct fields* f) {
  const char* value;

  if (strchr(line, ':') == NULL) return UV_EPROTO;
  if ((value = field_value(line, "content-disposition")) != NULL)
    read_disposition(value, f);
  if ((value = field_value(line, "content-type")) != NULL)
    snprintf(f->type, sizeof(f->type), "%s", value);
  if ((value = field_value(line, "content-length")) != NULL)
    return f->length >= 0 ? UV_EPROTO : read_length(value, &f->length);
  return 0;
}

/* `head` is all header lines, each with its CRLF. */
static int read_fields(char* head, struct fields* f) {
  while (*head != '\0') {
    char* end = strstr(head, "\r\n");
    int rc;

    if (end == NULL) return UV_EPROTO;
    *end = '\0';
    rc = read_field(head, f);
    if (rc != 0) return rc;
    head = end + 2;
  }
  return 0;
}

static int announce(struct sbx_multipart* m, const struct fields* f) {
  struct sbx_multipart_part part = {f->name, f->filename, f->type, f->length};
  int rc = m->events.on_part(m->events.arg, &part);

  m->inside = true;
  m->matched = 0;
  m->state = SEARCH;
  if (f->length < 0) return rc;
  m->left = (uint64_t) f->length;
  m->state = m->left > 0 ? COUNTED : MATCH;
  return rc;
}

static int finish_head(struct sbx_multipart* m) {
  struct fields* f;
  int rc;

  if (++m->parts > SBX_MULTIPART_PARTS_MAX) return UV_E2BIG;
  f = calloc(1, sizeof(*f));
  if (f == NULL) return UV_ENOMEM;
  f->length = -1;
  m->head.bytes[m->head.len - 2] = '\0'; /* the empty line */
  rc = memchr(m->head.bytes, '\0', m->head.len - 2) != NULL
           ? UV_EPROTO
           : read_fields(m->head.bytes, f);
  m->head.len = 0;
  if (rc == 0) rc = announce(m, f);
  free(f);
  return rc;
}

static bool head_is_whole(const struct sbx_text* t) {
  if (t->len == 2) return memcmp(t->bytes, "\r\n", 2) == 0;
  return t->len >= 4 && memcmp(t->bytes + t->len - 4, "\r\n\r\n", 4) == 0;
}

static int take_head(struct sbx_multipart* m, char c) {
  if (m->head.len >= SBX_MULTIPART_HEAD_MAX) return UV_E2BIG;
  sbx_text_add(&m->head, &c, 1);
  if (m->head.failed) return UV_ENOMEM;
  return head_is_whole(&m->head) ? finish_head(m) : 0;
}

/* ---- bodies ---- */

static int data(struct sbx_multipart* m, const char* bytes, size_t len) {
  if (!m->inside || len == 0) return 0;
  return m->events.on_data(m->events.arg, bytes, len);
}

static int delimited(struct sbx_multipart* m) {
  bool was_inside = m->inside;

  m->inside = false;
  m->behind_len = 0;
  m->state = BEHIND;
  return was_inside ? m->events.on_part_end(m->events.arg) : 0;
}

/* Takes bytes for as long as they are the delimiter; true where it is whole. */
static bool match(struct sbx_multipart* m, const char** at, const char* end) {
  while (*at < end && m->matched < m->delimiter_len &&
         **at == m->delimiter[m->matched]) {
    m->matched++;
    ++*at;
  }
  return m->matched == m->delimiter_len;
}

static int search(struct sbx_multipart* m, const char** at, const char* end) {
  const char* cr;
  size_t begun = m->matched;
  const char* from = *at;

  if (begun == 0) {
    cr = memchr(from, '\r', (size_t) (end - from));
    *at = cr != NULL ? cr : end;
    m->matched = cr != NULL;
    if (cr != NULL) ++*at;
    return data(m, from, (size_t) ((cr != NULL ? cr : end) - from));
  }
  if (match(m, at, end)) return delimited(m);
  if (*at == end) return 0;
  begun = m->matched; /* a false start: it was data */
  m->matched = 0;
  return data(m, m->delimiter, begun);
}

static int counted(struct sbx_multipart* m, const char** at, const char* end) {
  const char* from = *at;
  size_t n = (size_t) (end - from);

  if (n > m->left) n = (size_t) m->left;
  *at += n;
  m->left -= n;
  if (m->left == 0) m->state = MATCH;
  return data(m, from, n);
}

static int must_match(struct sbx_multipart* m, const char** at,
                      const char* end) {
  if (match(m, at, end)) return delimited(m);
  return *at == end ? 0 : UV_EPROTO;
}

/* "--" closes; blanks may stand before the line's end. */
static int behind(struct sbx_multipart* m, char c) {
  if (m->behind_len == 0 && is_blank(c)) return 0;
  m->behind[m->behind_len++] = c;
  if (m->behind_len < 2) return 0;
  if (memcmp(m->behind, "--", 2) == 0) {
    m->state = CLOSED;
    return 0;
  }
  m->state = HEAD;
  return memcmp(m->behind, "\r\n", 2) == 0 ? 0 : UV_EPROTO;
}

static int step(struct sbx_multipart* m, const char** at, const char* end) {
  switch (m->state) {
    case SEARCH: return search(m, at, end);
    case COUNTED: return counted(m, at, end);
    case MATCH: return must_match(m, at, end);
    case BEHIND: return behind(m, *(*at)++);
    case HEAD: return take_head(m, *(*at)++);
    default: *at = end; return 0;
  }
}

int sbx_multipart_feed(struct sbx_multipart* m, const char* bytes, size_t len) {
  const char* end = len > 0 ? bytes + len : bytes;

  while (bytes < end && m->failed == 0) m->failed = step(m, &bytes, end);
  return m->failed;
}

int sbx_multipart_finish(struct sbx_multipart* m) {
  if (m->failed == 0 && m->state != CLOSED) m->failed = UV_EOF;
  return m->failed;
}

static bool good_boundary(const char* text) {
  size_t len = strlen(text);

  if (len == 0 || text[len - 1] == ' ') return false;
  for (size_t i = 0; i < len; i++)
    if (text[i] < 0x20 || text[i] >= 0x7f) return false;
  return true;
}

int sbx_multipart_new(const char* content_type,
                      const struct sbx_multipart_events* events,
                      struct sbx_multipart** out) {
  char boundary[SBX_MULTIPART_BOUNDARY_MAX];
  struct sbx_multipart* m;

  *out = NULL;
  if (strncasecmp(content_type, "multipart/", 10) != 0 ||
      !parameter(content_type, "boundary", boundary, sizeof(boundary)) ||
      !good_boundary(boundary))
    return UV_EINVAL;
  m = calloc(1, sizeof(*m));
  if (m == NULL) return UV_ENOMEM;
  m->events = *events;
  m->delimiter_len = (size_t) snprintf(m->delimiter, sizeof(m->delimiter),
                                       "\r\n--%s", boundary);
  m->matched = 2; /* the first one may begin the body */
  *out = m;
  return 0;
}

void sbx_multipart_free(struct sbx_multipart* m) {
  if (m == NULL) return;
  sbx_text_free(&m->head);
  free(m);
}

/* ---- writing ---- */

int sbx_multipart_begin(struct sbx_multipart_frame* f) {
  unsigned char random[16];
  int rc = uv_random(NULL, NULL, random, sizeof(random), 0, NULL);

  memset(f, 0, sizeof(*f));
  if (rc != 0) return rc;
  strcpy(f->boundary, "------------------------");
  for (size_t i = 0; i < sizeof(random); i++)
    snprintf(f->boundary + 24 + 2 * i, 3, "%02x", random[i]);
  return 0;
}

/* As browsers do. */
static void put_quoted(struct sbx_text* t, const char* text) {
  sbx_text_add(t, "\"", 1);
  for (; *text != '\0'; text++) {
    if (*text == '"')
      sbx_text_puts(t, "%22");
    else if (*text == '\r')
      sbx_text_puts(t, "%0D");
    else if (*text == '\n')
      sbx_text_puts(t, "%0A");
    else
      sbx_text_add(t, text, 1);
  }
  sbx_text_add(t, "\"", 1);
}

static void put_line(struct sbx_multipart_frame* f, struct sbx_text* t,
                     const char* end) {
  sbx_text_puts(t, f->begun ? "\r\n--" : "--");
  sbx_text_puts(t, f->boundary);
  sbx_text_puts(t, end);
  f->begun = true;
}

void sbx_multipart_head(struct sbx_multipart_frame* f, struct sbx_text* t,
                        const char* name, const char* filename,
                        const char* type) {
  put_line(f, t, "\r\nContent-Disposition: form-data; name=");
  put_quoted(t, name);
  if (filename != NULL) {
    sbx_text_puts(t, "; filename=");
    put_quoted(t, filename);
  }
  if (type != NULL) {
    sbx_text_puts(t, "\r\nContent-Type: ");
    sbx_text_puts(t, type);
  }
  sbx_text_puts(t, "\r\n\r\n");
}

void sbx_multipart_tail(struct sbx_multipart_frame* f, struct sbx_text* t) {
  put_line(f, t, "--\r\n");
}

const char* sbx_multipart_type(const struct sbx_multipart_frame* f,
                               char out[SBX_MULTIPART_TYPE_MAX]) {
  snprintf(out, SBX_MULTIPART_TYPE_MAX, "multipart/form-data; boundary=%s",
           f->boundary);
  return out;
}
