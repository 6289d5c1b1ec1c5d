package fleet

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Micros is an amount of money in millionths of a US dollar. Sums of it are exact.
type Micros int64

// MicrosOf returns the amount, rounded to the nearest millionth.
func MicrosOf(usd float64) Micros { return Micros(math.Round(usd * 1e6)) }

// USD returns the amount in US dollars.
func (m Micros) USD() float64 { return float64(m) / 1e6 }

// String returns the amount as people write it: with cents, and with as many digits as it needs after them.
func (m Micros) String() string {
	sign, n := "", uint64(m) //nolint:gosec // negated below
	if m < 0 {
		sign, n = "-", -n
	}
	digits := strconv.FormatUint(n%1e6+1e6, 10)[1:]
	return sign + "$" + strconv.FormatUint(n/1e6, 10) + "." + digits[:2] + strings.TrimRight(digits[2:], "0")
}

// TokensText returns the number of tokens for people.
func TokensText(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return fmt.Sprintf("%s tokens", text)
}

// Amount is an amount of money and of tokens that a task uses or may use.
type Amount struct {
	Micros Micros `json:"micros,omitempty"`
	Tokens int64  `json:"tokens,omitempty"`
}

// Plus returns the sum of both amounts.
func (a Amount) Plus(b Amount) Amount { return Amount{a.Micros + b.Micros, a.Tokens + b.Tokens} }

// Minus returns a minus b, which may be negative.
func (a Amount) Minus(b Amount) Amount { return Amount{a.Micros - b.Micros, a.Tokens - b.Tokens} }
