/* gate: token, Host, Origin and paths. A page of another site can make a browser send requests here, and can set a
 * name of its own to 127.0.0.1; what it cannot do is to know the token, or to send a Host or Origin that is not its
 * own. */
#include "serve/gate.h"

static struct tg__str before_port(struct tg__str host) {
  uint32_t len = host.len;
  while (len && host.ptr[len - 1] >= '0' && host.ptr[len - 1] <= '9') len--;
  return len && len < host.len && host.ptr[len - 1] == ':' ? (struct tg__str){host.ptr, len - 1} : host;
}

bool tg__host_is_local(struct tg__str host) {
  const struct tg__str name = before_port(host);
  return tg__str_eq(name, TG_STR("127.0.0.1")) || tg__str_eq_nocase(name, "localhost") ||
         tg__str_eq(name, TG_STR("[::1]"));
}

bool tg__origin_is_ours(struct tg__str origin, struct tg__str host) {
  static const char scheme[] = "http://";
  if (!origin.len) return true;
  if (!tg__str_has_prefix(origin, scheme)) return false;
  return tg__str_eq((struct tg__str){origin.ptr + strlen(scheme), origin.len - (uint32_t)strlen(scheme)}, host);
}

struct tg__str tg__behind_token(struct tg__str path, const char *token) {
  const uint32_t len = (uint32_t)strlen(token);
  if (path.len < len + 2 || path.ptr[0] != '/' || path.ptr[len + 1] != '/') return (struct tg__str){NULL, 0};
  unsigned differs = 0;
  for (uint32_t i = 0; i < len; i++) differs |= (unsigned char)path.ptr[i + 1] ^ (unsigned char)token[i];
  return differs ? (struct tg__str){NULL, 0} : (struct tg__str){path.ptr + len + 2, path.len - len - 2};
}

bool tg__path_is_plain(struct tg__str path) {
  for (uint32_t i = 0; i < path.len; i++) {
    const char c = path.ptr[i];
    const bool letter =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    const bool begins = i == 0 || path.ptr[i - 1] == '/';
    if (!letter && (begins || (c != '.' && c != '/'))) return false;
  }
  return path.len > 0;
}

const char *tg__content_type(struct tg__str path) {
  static const struct {
    const char *suffix, *type;
  } types[] = {{".html", "text/html; charset=utf-8"},
               {".js", "text/javascript; charset=utf-8"},
               {".css", "text/css; charset=utf-8"},
               {".svg", "image/svg+xml"},
               {".png", "image/png"},
               {".json", "application/json"}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (tg__str_has_suffix(path, types[i].suffix)) return types[i].type;
  return NULL;
}
