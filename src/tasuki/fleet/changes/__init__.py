"""What an agent changed: read from git in its folder, on its host, and never by a program that its repository names."""
