// The peer of `tachograph ask FILE overview`: one new process, one new parser, one file to a DOM; answers nothing yet.
#include <simdjson.h>

#include <cstdio>

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  simdjson::dom::parser parser;
  simdjson::padded_string text;
  if (auto error = simdjson::padded_string::load(argv[1]).get(text)) {
    std::fprintf(stderr, "%s: %s\n", argv[1], simdjson::error_message(error));
    return 4;
  }
  simdjson::dom::element document;
  if (auto error = parser.parse(text).get(document)) {
    std::fprintf(stderr, "%s: %s\n", argv[1], simdjson::error_message(error));
    return 4;
  }
  std::printf("%zu bytes, %s\n", text.size(), document.is_object() ? "an object" : "no object");
  return 0;
}
