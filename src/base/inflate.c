/* Compressed input as plain text: gzip (ISA-L, else zlib) and zstd, distinguished by their first bytes. And compression
 * of output. */
#include "base/base.h"

#ifdef TG_WITH_ISAL
#include <isa-l/igzip_lib.h>
#elif defined(TG_WITH_ZLIB)
#include <zlib.h>
#endif
#ifdef TG_WITH_ZSTD
#include <zstd.h>
#endif

/* SLACK: ISA-L holds up to 8 bytes in its bit buffer and steps back over them at the end of a member, perhaps to
 * before the last refill; so the tail of the old content stays in front of the new. */
enum { BUFFER = 512 << 10, SLACK = 16, TASTE = 4 };

struct tg__input {
  struct tg__file *file;
  enum tg__packing packing;
  unsigned char *buf;      /* SLACK + BUFFER bytes */
  const unsigned char *in; /* what is left of the bytes read from the file */
  size_t left;
  int64_t taken;  /* bytes read from the file */
  int64_t given;  /* bytes of plain text handed out */
  bool at_end;    /* the file has no more bytes */
  bool done;      /* the plain text has ended */
  bool in_member; /* a member or frame has begun and not ended */
  bool codec_is_open;
  enum tg_err broken;
  struct tg_error why;
#ifdef TG_WITH_ISAL
  struct inflate_state *gzip;
#elif defined(TG_WITH_ZLIB)
  z_stream gzip;
#endif
#ifdef TG_WITH_ZSTD
  ZSTD_DStream *zstd;
#endif
};

static int64_t packed_offset(const struct tg__input *in) { return in->taken - (int64_t)in->left; }

static void break_off(struct tg__input *in, enum tg_err code, const char *what) {
  in->broken = tg__fail(&in->why, code, in->given,
                        "the compressed data %s at byte %lld of the file; what came before it was read", what,
                        (long long)packed_offset(in));
}

/* Read more of the file behind what is left. false: broken. */
static bool refill(struct tg__input *in) {
  unsigned char *start = in->buf + SLACK;
  const size_t keep = in->left;
  if (keep) {
    memmove(start, in->in, keep);
  } else if (in->in >= start + SLACK) {
    memcpy(in->buf, in->in - SLACK, SLACK);
  }
  in->in = start;
  const int64_t n = tg__file_read(in->file, start + keep, BUFFER - keep);
  if (n < 0) {
    in->broken = tg__fail(&in->why, TG_IO, in->given, "the file cannot be read beyond byte %lld", (long long)in->taken);
    return false;
  }
  in->at_end = n == 0;
  in->left += (size_t)n;
  in->taken += n;
  return true;
}

/* Have at least `want` bytes at hand unless the file ends before. */
static bool want_bytes(struct tg__input *in, size_t want) {
  while (in->left < want && !in->at_end) {
    if (!refill(in)) return false;
  }
  return true;
}

static bool is_gzip(const struct tg__input *in) {
  return in->left >= 3 && in->in[0] == 0x1f && in->in[1] == 0x8b && in->in[2] == 8;
}

static bool is_zstd(const struct tg__input *in) {
  if (in->left < 4) return false;
  const uint32_t magic =
      (uint32_t)in->in[0] | (uint32_t)in->in[1] << 8 | (uint32_t)in->in[2] << 16 | (uint32_t)in->in[3] << 24;
  return magic == 0xFD2FB528u || (magic & 0xFFFFFFF0u) == 0x184D2A50u; /* a frame, or one to skip */
}

/* ---- gzip ------------------------------------------------------------------------------------ */

#ifdef TG_WITH_ISAL

static enum tg_err gzip_open(struct tg__input *in) {
  in->gzip = tg__realloc(NULL, sizeof *in->gzip);
  return in->gzip ? TG_OK : TG_MEMORY;
}

static void gzip_close(struct tg__input *in) { tg__free(in->gzip); }

static void gzip_begin(struct tg__input *in) {
  isal_inflate_init(in->gzip);
  in->gzip->crc_flag = ISAL_GZIP;
}

/* Unpack what is at hand into buf; returns bytes made. */
static size_t gzip_step(struct tg__input *in, void *buf, size_t len) {
  struct inflate_state *z = in->gzip;
  z->next_in = (uint8_t *)in->in;
  z->avail_in = (uint32_t)in->left;
  z->next_out = buf;
  z->avail_out = len > UINT32_MAX ? UINT32_MAX : (uint32_t)len;
  const uint32_t room = z->avail_out;
  const int result = isal_inflate(z);
  in->in = z->next_in;
  in->left = z->avail_in;
  if (result < 0)
    break_off(in, TG_DAMAGED, result == ISAL_INCORRECT_CHECKSUM ? "does not match its checksum" : "is damaged");
  else if (result == ISAL_NEED_DICT)
    break_off(in, TG_UNSUPPORTED, "needs a preset dictionary");
  in->in_member = z->block_state != ISAL_BLOCK_FINISH;
  return room - z->avail_out;
}

#elif defined(TG_WITH_ZLIB)

static enum tg_err gzip_open(struct tg__input *in) {
  return inflateInit2(&in->gzip, 15 + 16) == Z_OK ? TG_OK : TG_MEMORY;
}
static void gzip_close(struct tg__input *in) { inflateEnd(&in->gzip); }
static void gzip_begin(struct tg__input *in) { inflateReset(&in->gzip); }

static size_t gzip_step(struct tg__input *in, void *buf, size_t len) {
  z_stream *z = &in->gzip;
  z->next_in = (unsigned char *)in->in;
  z->avail_in = (uInt)in->left;
  z->next_out = buf;
  z->avail_out = len > UINT32_MAX ? UINT32_MAX : (uInt)len;
  const uInt room = z->avail_out;
  const int result = inflate(z, Z_NO_FLUSH);
  in->in = z->next_in;
  in->left = z->avail_in;
  if (result == Z_MEM_ERROR)
    break_off(in, TG_MEMORY, "could not be unpacked: out of memory");
  else if (result == Z_DATA_ERROR)
    break_off(in, TG_DAMAGED, z->msg && strstr(z->msg, "check") ? "does not match its checksum" : "is damaged");
  else if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
    break_off(in, TG_DAMAGED, "is damaged");
  in->in_member = result != Z_STREAM_END;
  return room - z->avail_out;
}

#else

static enum tg_err gzip_open(struct tg__input *in) { return TG_UNSUPPORTED; }
static void gzip_close(struct tg__input *in) {}
static void gzip_begin(struct tg__input *in) {}
static size_t gzip_step(struct tg__input *in, void *buf, size_t len) { return 0; }

#endif

/* ---- zstd ------------------------------------------------------------------------------------ */

#ifdef TG_WITH_ZSTD

static enum tg_err zstd_open(struct tg__input *in) { return (in->zstd = ZSTD_createDStream()) ? TG_OK : TG_MEMORY; }
static void zstd_close(struct tg__input *in) { ZSTD_freeDStream(in->zstd); }
static void zstd_begin(struct tg__input *in) { ZSTD_DCtx_reset(in->zstd, ZSTD_reset_session_only); }

static size_t zstd_step(struct tg__input *in, void *buf, size_t len) {
  ZSTD_inBuffer from = {in->in, in->left, 0};
  ZSTD_outBuffer to = {buf, len, 0};
  const size_t result = ZSTD_decompressStream(in->zstd, &to, &from);
  in->in += from.pos;
  in->left -= from.pos;
  if (ZSTD_isError(result)) {
    char what[160] = "is damaged (";
    strncat(what, ZSTD_getErrorName(result), 100);
    strcat(what, ")");
    break_off(in, TG_DAMAGED, what);
  }
  in->in_member = result != 0;
  return to.pos;
}

#else

static enum tg_err zstd_open(struct tg__input *in) { return TG_UNSUPPORTED; }
static void zstd_close(struct tg__input *in) {}
static void zstd_begin(struct tg__input *in) {}
static size_t zstd_step(struct tg__input *in, void *buf, size_t len) { return 0; }

#endif

/* ---- the stream ------------------------------------------------------------------------------ */

static enum tg_err open_codec(struct tg__input *in, const char *path, struct tg_error *e) {
  const bool gzip = in->packing == TG__GZIP;
  const enum tg_err err = gzip ? gzip_open(in) : zstd_open(in);
  in->codec_is_open = !err;
  if (err != TG_UNSUPPORTED) return err;
  return tg__fail(e, err, 0, "'%s' is packed with %s, which this build cannot unpack: run %s on it first", path,
                  gzip ? "gzip" : "zstd", gzip ? "gunzip" : "unzstd");
}

enum tg_err tg__input_open(const char *path, struct tg__input **out, struct tg_error *e) {
  *out = NULL;
  enum tg_err err = TG_MEMORY;
  struct tg__input *in = tg__alloc(sizeof *in);
  if (!in) goto failed;
  err = tg__file_open(path, &in->file, e);
  if (err) goto failed;
  in->buf = tg__realloc(NULL, SLACK + BUFFER);
  if (!in->buf) err = TG_MEMORY;
  if (err) goto failed;
  in->in = in->buf + SLACK;
  if (!want_bytes(in, TASTE)) {
    if (e) *e = in->why;
    err = in->broken;
    goto failed;
  }
  in->packing = is_gzip(in) ? TG__GZIP : is_zstd(in) ? TG__ZSTD : TG__PLAIN;
  if (in->packing != TG__PLAIN) err = open_codec(in, path, e);
  if (err) goto failed;
  *out = in;
  return TG_OK;
failed:
  tg__input_close(in);
  return err == TG_MEMORY ? tg__no_memory(e, "opening '%s'", path) : err;
}

void tg__input_close(struct tg__input *in) {
  if (!in) return;
  if (in->codec_is_open && in->packing == TG__GZIP) gzip_close(in);
  if (in->codec_is_open && in->packing == TG__ZSTD) zstd_close(in);
  tg__free(in->buf);
  tg__file_close(in->file);
  tg__free(in);
}

enum tg__packing tg__input_packing(const struct tg__input *in) { return in->packing; }
int64_t tg__input_file_bytes(const struct tg__input *in) { return tg__file_size(in->file); }
int64_t tg__input_bytes_taken(const struct tg__input *in) { return packed_offset(in); }

/* First what was tasted at opening, then straight from the file into the caller's buffer. */
static size_t read_plain(struct tg__input *in, void *buf, size_t len) {
  if (in->left) {
    const size_t n = in->left < len ? in->left : len;
    memcpy(buf, in->in, n);
    in->in += n;
    in->left -= n;
    return n;
  }
  const int64_t n = tg__file_read(in->file, buf, len);
  if (n < 0)
    in->broken = tg__fail(&in->why, TG_IO, in->given, "the file cannot be read beyond byte %lld", (long long)in->taken);
  if (n <= 0) {
    in->done = true;
    return 0;
  }
  in->taken += n;
  return (size_t)n;
}

/* Zeros fill up blocks of tapes and disks: they are no loss. false: broken. */
static bool skip_padding(struct tg__input *in) {
  while (want_bytes(in, 1) && in->left && !*in->in) in->in++, in->left--;
  return !in->broken;
}

/* Before the first member and between two: begin the next. Other bytes may be a member with a damaged head. */
static void next_member(struct tg__input *in) {
  if (!skip_padding(in) || !want_bytes(in, TASTE)) return;
  const bool more = in->packing == TG__GZIP ? is_gzip(in) : is_zstd(in);
  if (!more) {
    in->done = in->left == 0;
    if (!in->done) break_off(in, TG_DAMAGED, "is followed by something else");
    return;
  }
  if (in->packing == TG__GZIP)
    gzip_begin(in);
  else
    zstd_begin(in);
  in->in_member = true;
}

static size_t read_packed(struct tg__input *in, void *buf, size_t len) {
  size_t made = 0;
  while (!made && !in->done && !in->broken) {
    if (!in->in_member) {
      next_member(in);
      continue;
    }
    if (!in->left && !in->at_end && !refill(in)) break;
    const size_t before = in->left;
    made = in->packing == TG__GZIP ? gzip_step(in, buf, len) : zstd_step(in, buf, len);
    if (made || in->broken || !in->in_member) continue;
    if (in->at_end && in->left == before)
      break_off(in, TG_DAMAGED, "is cut off");
    else if (in->left && in->left == before)
      break_off(in, TG_DAMAGED, "is damaged");
  }
  return made;
}

int64_t tg__input_read(struct tg__input *in, void *buf, size_t len, struct tg_error *e) {
  size_t made = 0;
  if (!in->broken && !in->done && len)
    made = in->packing == TG__PLAIN ? read_plain(in, buf, len) : read_packed(in, buf, len);
  in->given += (int64_t)made;
  in->why.offset = in->given; /* what a step made before it broke counts */
  if (made || !in->broken) return (int64_t)made;
  if (e) *e = in->why;
  return -1;
}

const char *tg__input_codecs(void) {
#ifdef TG_WITH_ISAL
#define GZIP_BY "gzip (ISA-L)"
#elif defined(TG_WITH_ZLIB)
#define GZIP_BY "gzip (zlib)"
#else
#define GZIP_BY "no gzip"
#endif
#ifdef TG_WITH_ZSTD
  return GZIP_BY ", zstd";
#else
  return GZIP_BY ", no zstd";
#endif
}

/* ---- the way back ---------------------------------------------------------------------------- */

struct tg__packer {
  enum tg__packing packing;
  bool (*write)(void *ctx, const char *bytes, size_t len);
  void *ctx;
  unsigned char *out; /* BUFFER bytes */
#ifdef TG_WITH_ISAL
  struct isal_zstream gzip;
  unsigned char *level_buf;
#elif defined(TG_WITH_ZLIB)
  z_stream gzip;
#endif
#ifdef TG_WITH_ZSTD
  ZSTD_CStream *zstd;
#endif
};

#ifdef TG_WITH_ISAL

static enum tg_err deflate_open(struct tg__packer *p) {
  isal_deflate_init(&p->gzip);
  p->level_buf = tg__alloc(ISAL_DEF_LVL2_DEFAULT);
  p->gzip.level = 2; /* about 300 MB/s; level 3 gains 2 % in size and costs a third of the speed */
  p->gzip.level_buf = p->level_buf;
  p->gzip.level_buf_size = ISAL_DEF_LVL2_DEFAULT;
  p->gzip.gzip_flag = IGZIP_GZIP;
  return p->level_buf ? TG_OK : TG_MEMORY;
}

static void deflate_close(struct tg__packer *p) { tg__free(p->level_buf); }

static bool deflate_all(struct tg__packer *p, const char *bytes, uint32_t len, bool last) {
  struct isal_zstream *z = &p->gzip;
  z->next_in = (uint8_t *)bytes;
  z->avail_in = len;
  z->end_of_stream = last;
  do {
    z->next_out = p->out;
    z->avail_out = BUFFER;
    if (isal_deflate(z) != COMP_OK || !(*p->write)(p->ctx, (char *)p->out, BUFFER - z->avail_out)) return false;
  } while (z->avail_in || z->avail_out == 0 || (last && z->internal_state.state != ZSTATE_END));
  return true;
}

#elif defined(TG_WITH_ZLIB)

static enum tg_err deflate_open(struct tg__packer *p) {
  return deflateInit2(&p->gzip, 4, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK ? TG_OK : TG_MEMORY;
}

static void deflate_close(struct tg__packer *p) { deflateEnd(&p->gzip); }

static bool deflate_all(struct tg__packer *p, const char *bytes, uint32_t len, bool last) {
  z_stream *z = &p->gzip;
  z->next_in = (unsigned char *)bytes;
  z->avail_in = len;
  do {
    z->next_out = p->out;
    z->avail_out = BUFFER;
    if (deflate(z, last ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR) return false;
    if (!(*p->write)(p->ctx, (char *)p->out, BUFFER - z->avail_out)) return false;
  } while (z->avail_out == 0);
  return true;
}

#else

static enum tg_err deflate_open(struct tg__packer *p) { return TG_UNSUPPORTED; }
static void deflate_close(struct tg__packer *p) {}
static bool deflate_all(struct tg__packer *p, const char *bytes, uint32_t len, bool last) { return false; }

#endif

#ifdef TG_WITH_ZSTD

static enum tg_err zstd_pack_open(struct tg__packer *p) { return (p->zstd = ZSTD_createCStream()) ? TG_OK : TG_MEMORY; }
static void zstd_pack_close(struct tg__packer *p) { ZSTD_freeCStream(p->zstd); }

static bool zstd_pack_all(struct tg__packer *p, const char *bytes, uint32_t len, bool last) {
  ZSTD_inBuffer from = {bytes, len, 0};
  size_t left;
  do {
    ZSTD_outBuffer to = {p->out, BUFFER, 0};
    left = ZSTD_compressStream2(p->zstd, &to, &from, last ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(left) || !(*p->write)(p->ctx, (char *)p->out, to.pos)) return false;
  } while (from.pos < from.size || (last && left));
  return true;
}

#else

static enum tg_err zstd_pack_open(struct tg__packer *p) { return TG_UNSUPPORTED; }
static void zstd_pack_close(struct tg__packer *p) {}
static bool zstd_pack_all(struct tg__packer *p, const char *bytes, uint32_t len, bool last) { return false; }

#endif

void tg__packer_free(struct tg__packer *p) {
  if (!p) return;
  if (p->packing == TG__GZIP) deflate_close(p);
  if (p->packing == TG__ZSTD) zstd_pack_close(p);
  tg__free(p->out);
  tg__free(p);
}

enum tg_err tg__packer_new(enum tg__packing packing, bool (*write)(void *ctx, const char *bytes, size_t len), void *ctx,
                           struct tg__packer **out, struct tg_error *e) {
  struct tg__packer *p = tg__alloc(sizeof *p);
  *out = NULL;
  enum tg_err err = TG_MEMORY;
  if (!p) return tg__no_memory(e, "compressing");
  p->write = write;
  p->ctx = ctx;
  p->out = tg__alloc(BUFFER);
  if (p->out) err = packing == TG__GZIP ? deflate_open(p) : packing == TG__ZSTD ? zstd_pack_open(p) : TG_USAGE;
  p->packing = packing;
  if (!err) {
    *out = p;
    return TG_OK;
  }
  tg__packer_free(p);
  if (err == TG_MEMORY) return tg__no_memory(e, "compressing");
  return tg__fail(e, err, -1, "this build cannot write %s: use another extension",
                  packing == TG__ZSTD ? "zstd" : "gzip");
}

static bool pack_all(struct tg__packer *p, const char *bytes, uint32_t len, bool last) {
  return p->packing == TG__GZIP ? deflate_all(p, bytes, len, last) : zstd_pack_all(p, bytes, len, last);
}

bool tg__packer_write(void *packer, const char *bytes, size_t len) {
  enum { PIECE = 1 << 30 }; /* the codecs count in 32 bits */
  for (; len > PIECE; bytes += PIECE, len -= PIECE) {
    if (!pack_all(packer, bytes, PIECE, false)) return false;
  }
  return pack_all(packer, bytes, (uint32_t)len, false);
}

bool tg__packer_end(struct tg__packer *p) { return pack_all(p, "", 0, true); }
