/* inputs: reading back what an operation was called with. inputs.def is the list. */
#include "format/format.h"

static void take_tensor(struct tg__bytes *b, struct tg__input_value *v) {
  v->dtype = tg__bytes_take8(b);
  v->dims = tg__bytes_take8(b);
  v->strided = tg__bytes_take8(b) & 1;
  v->bytes = tg__bytes_take(b, (size_t)v->dims * 8 * (v->strided ? 2 : 1));
}

bool tg__input_next(struct tg__bytes *b, struct tg__input_value *out) {
  if (b->p == b->end || b->broken) return false;
  *out = (struct tg__input_value){.kind = tg__bytes_take8(b)};
  switch (out->kind) {
  case TG_INPUT_TENSOR:
    take_tensor(b, out);
    break;
  case TG_INPUT_INT:
    out->i = (int64_t)tg__bytes_take64(b);
    break;
  case TG_INPUT_DOUBLE: {
    const uint64_t bits = tg__bytes_take64(b);
    memcpy(&out->d, &bits, sizeof bits);
    break;
  }
  case TG_INPUT_BOOL:
    out->i = tg__bytes_take8(b) != 0;
    break;
  case TG_INPUT_TENSOR_LIST:
    out->count = tg__bytes_take16(b);
    break;
  case TG_INPUT_INT_LIST:
  case TG_INPUT_DOUBLE_LIST:
    out->count = tg__bytes_take16(b);
    out->bytes = tg__bytes_take(b, (size_t)out->count * 8);
    break;
  case TG_INPUT_BOOL_LIST:
  case TG_INPUT_STRING:
  case TG_INPUT_KEYWORD:
    out->count = tg__bytes_take16(b);
    out->bytes = tg__bytes_take(b, out->count);
    break;
  case TG_INPUT_STRING_LIST:
    out->count = tg__bytes_take16(b);
    out->bytes = b->p;
    for (unsigned i = 0; i < out->count && !b->broken; i++) tg__bytes_take(b, tg__bytes_take16(b));
    break;
  case TG_INPUT_NONE:
  case TG_INPUT_UNDEFINED:
  case TG_INPUT_OTHER:
  case TG_INPUT_SCALAR_LIST:
  case TG_INPUT_SCALAR:
    break;
  default:
    b->broken = true; /* its length is not known */
  }
  return !b->broken;
}

/* Numbers of c10::ScalarType; the names are those that Kineto's traces show, as GCC spells the types. */
const char *tg__scalar_type_name(uint8_t dtype) {
  static const char *const names[] = {"unsigned char",
                                      "signed char",
                                      "short int",
                                      "int",
                                      "long int",
                                      "c10::Half",
                                      "float",
                                      "double",
                                      "c10::complex<c10::Half>",
                                      "c10::complex<float>",
                                      "c10::complex<double>",
                                      "bool",
                                      "c10::qint8",
                                      "c10::quint8",
                                      "c10::qint32",
                                      "c10::BFloat16",
                                      "c10::quint4x2",
                                      "c10::quint2x4",
                                      "c10::bits1x8",
                                      "c10::bits2x4",
                                      "c10::bits4x2",
                                      "c10::bits8",
                                      "c10::bits16",
                                      "c10::Float8_e5m2",
                                      "c10::Float8_e4m3fn",
                                      "c10::Float8_e5m2fnuz",
                                      "c10::Float8_e4m3fnuz",
                                      "short unsigned int",
                                      "unsigned int",
                                      "long unsigned int",
                                      "c10::dummy_uint1_7_t<1>",
                                      "c10::dummy_uint1_7_t<2>",
                                      "c10::dummy_uint1_7_t<3>",
                                      "c10::dummy_uint1_7_t<4>",
                                      "c10::dummy_uint1_7_t<5>",
                                      "c10::dummy_uint1_7_t<6>",
                                      "c10::dummy_uint1_7_t<7>",
                                      "c10::dummy_int1_7_t<1>",
                                      "c10::dummy_int1_7_t<2>",
                                      "c10::dummy_int1_7_t<3>",
                                      "c10::dummy_int1_7_t<4>",
                                      "c10::dummy_int1_7_t<5>",
                                      "c10::dummy_int1_7_t<6>",
                                      "c10::dummy_int1_7_t<7>",
                                      "c10::Float8_e8m0fnu",
                                      "c10::Float4_e2m1fn_x2",
                                      "c10::complex<c10::BFloat16>"};
  return dtype < sizeof names / sizeof *names ? names[dtype] : "";
}
