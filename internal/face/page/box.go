package page

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// box encrypts texts. Only a box with the same purpose and secret can open them.
type box struct{ cipher.AEAD }

func newBox(purpose, secret string) box {
	block, _ := aes.NewCipher(keyFor(purpose, secret)) // it and NewGCM cannot fail with a key of this size
	aead, _ := cipher.NewGCM(block)
	return box{aead}
}

// keyFor derives a key of 32 bytes from the secret. Each purpose has its own key.
func keyFor(purpose, secret string) []byte {
	sum := sha256.Sum256([]byte(purpose + "\x00" + secret))
	return sum[:]
}

// seal returns the encrypted text, in base64 for URLs.
func (b box) seal(text string) string {
	nonce := make([]byte, b.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	return base64.RawURLEncoding.EncodeToString(b.Seal(nonce, nonce, []byte(text), nil))
}

// open returns the text. It returns "" if the text was not sealed by a box with the same purpose and secret.
func (b box) open(sealed string) string {
	all, err := base64.RawURLEncoding.DecodeString(sealed)
	n := b.NonceSize()
	if err != nil || len(all) < n {
		return ""
	}
	text, _ := b.Open(nil, all[:n], all[n:], nil) // text is nil if Open fails
	return string(text)
}
