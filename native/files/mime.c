/* Mastra's media types by file extension: its tools decide by them whether a
 * file is shown as text, as an image or as its facts only. */
#include <string.h>

#include "../path.h"

struct sbx__mime {
  const char* extension;
  const char* type;
};

/* Sorted by extension. */
static const struct sbx__mime sbx__mimes[] = {
    {"7z", "application/x-7z-compressed"},
    {"aac", "audio/aac"},
    {"avi", "video/x-msvideo"},
    {"avif", "image/avif"},
    {"bash", "text/x-sh"},
    {"bin", "application/x-binary"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"c", "text/x-c"},
    {"class", "application/java-vm"},
    {"cpp", "text/x-c++"},
    {"css", "text/css"},
    {"csv", "text/csv"},
    {"dart", "application/dart"},
    {"dat", "application/x-binary"},
    {"deb", "application/vnd.debian.binary-package"},
    {"dll", "application/vnd.microsoft.portable-executable"},
    {"dmg", "application/x-apple-diskimage"},
    {"doc", "application/msword"},
    {"docx",
     "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"dylib", "application/x-sharedlib"},
    {"env", "text/plain"},
    {"exe", "application/vnd.microsoft.portable-executable"},
    {"flac", "audio/flac"},
    {"gif", "image/gif"},
    {"go", "text/x-go"},
    {"gql", "application/graphql"},
    {"graphql", "application/graphql"},
    {"gz", "application/gzip"},
    {"h", "text/x-c"},
    {"heic", "image/heic"},
    {"heif", "image/heif"},
    {"hpp", "text/x-c++"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ico", "image/x-icon"},
    {"ini", "text/plain"},
    {"iso", "application/x-iso9660-image"},
    {"java", "text/x-java"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "application/javascript"},
    {"json", "application/json"},
    {"jsonl", "application/jsonl"},
    {"jsx", "application/javascript"},
    {"kt", "text/x-kotlin"},
    {"kts", "text/x-kotlin"},
    {"less", "text/x-less"},
    {"log", "text/plain"},
    {"lua", "text/x-lua"},
    {"m4a", "audio/mp4"},
    {"md", "text/markdown"},
    {"mdx", "text/markdown"},
    {"mjs", "application/javascript"},
    {"mkv", "video/x-matroska"},
    {"mov", "video/quicktime"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"ogg", "audio/ogg"},
    {"otf", "font/otf"},
    {"pdf", "application/pdf"},
    {"php", "application/x-php"},
    {"png", "image/png"},
    {"ppt", "application/vnd.ms-powerpoint"},
    {"pptx",
     "application/vnd.openxmlformats-officedocument."
     "presentationml.presentation"},
    {"py", "text/x-python"},
    {"pyc", "application/x-python-code"},
    {"r", "text/x-r"},
    {"rar", "application/vnd.rar"},
    {"rb", "text/x-ruby"},
    {"rpm", "application/x-rpm"},
    {"rs", "text/x-rust"},
    {"sas", "text/plain"},
    {"sass", "text/x-sass"},
    {"scss", "text/x-scss"},
    {"sh", "text/x-sh"},
    {"so", "application/x-sharedlib"},
    {"sql", "text/x-sql"},
    {"svelte", "text/x-svelte"},
    {"svg", "image/svg+xml"},
    {"swift", "text/x-swift"},
    {"tar", "application/x-tar"},
    {"tf", "text/x-terraform"},
    {"tfvars", "text/x-terraform"},
    {"tgz", "application/gzip"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "text/toml"},
    {"ts", "application/typescript"},
    {"tsx", "application/typescript"},
    {"ttf", "font/ttf"},
    {"txt", "text/plain"},
    {"vue", "text/x-vue"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"webm", "video/webm"},
    {"webp", "image/webp"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx",
     "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"yaml", "text/yaml"},
    {"yml", "text/yaml"},
    {"zip", "application/zip"},
    {"zsh", "text/x-sh"},
};

/* As Node's path.extname: nothing for ".env", "Makefile" and "..". */
static const char* sbx__extension(const char* path) {
  const char* slash = strrchr(path, '/');
  const char* name = slash ? slash + 1 : path;
  const char* dot = strrchr(name, '.');
  if (!dot || dot == name || strcmp(name, "..") == 0) return "";
  return dot + 1;
}

const char* sbx_path_mime(const char* path) {
  const char* extension = sbx__extension(path);
  char lower[16];
  size_t len = strlen(extension);
  if (len == 0 || len >= sizeof(lower)) return NULL;
  for (size_t i = 0; i <= len; i++) {
    char c = extension[i];
    lower[i] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
  }
  size_t low = 0, high = sizeof(sbx__mimes) / sizeof(*sbx__mimes);
  while (low < high) {
    size_t middle = (low + high) / 2;
    int order = strcmp(lower, sbx__mimes[middle].extension);
    if (order == 0) return sbx__mimes[middle].type;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}
