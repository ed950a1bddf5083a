# Key stores of other programs, valid for a century, for the tests: OpenSSL 3 and Java 17.
set -e
cd "$(dirname "$0")"
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 36500 -subj /CN=localhost
openssl pkcs12 -export -inkey key.pem -in cert.pem -out openssl-rsa.p12 -passout pass:changeit
openssl ecparam -name prime256v1 -genkey -noout -out ec-key.pem
openssl req -x509 -new -key ec-key.pem -out ec-cert.pem -days 36500 -subj /CN=localhost
openssl pkcs12 -export -inkey ec-key.pem -in ec-cert.pem -out openssl-ec.p12 -passout pass:changeit
rm -f java-rsa.p12 java-ec.p12 java.jks
keytool -genkeypair -alias server -keyalg RSA -storetype PKCS12 -keystore java-rsa.p12 -storepass changeit -dname CN=localhost -validity 36500
keytool -genkeypair -alias server -keyalg EC -storetype PKCS12 -keystore java-ec.p12 -storepass changeit -dname CN=localhost -validity 36500
keytool -genkeypair -alias server -keyalg RSA -storetype JKS -keystore java.jks -storepass changeit -keypass changeit -dname CN=localhost -validity 36500
rm -f key.pem cert.pem ec-key.pem ec-cert.pem
