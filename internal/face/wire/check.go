package wire

import "unicode/utf8"

// MaxDepth is the largest nesting depth of objects and arrays in a client's JSON. Requests need far less: without the free-form
// objects in them, the deepest has four levels, and an MCP message adds three.
const MaxDepth = 64

// Check returns an error if the JSON is not UTF-8, or is nested more deeply than MaxDepth. Call it before a parser other than
// Unmarshal reads the JSON. It does not check the syntax. The error is a gRPC status INVALID_ARGUMENT.
func Check(data []byte) error {
	if !utf8.Valid(data) {
		return notUTF8Error(firstInvalid(data))
	}
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return tooDeepError()
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

func notUTF8Error(index int) error {
	return Invalid(ReasonInvalidArgument, "", "the JSON is not valid UTF-8 at byte %d; send UTF-8", index)
}

func tooDeepError() error {
	return Invalid(ReasonInvalidArgument, "", "the JSON is nested deeper than %d levels; send a flat object", MaxDepth)
}

// firstInvalid returns the index of the first byte that is not UTF-8, or len(data) if all bytes are UTF-8.
func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(data)
}
