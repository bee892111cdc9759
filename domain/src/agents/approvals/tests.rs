use std::time::{Duration, Instant};

use kitfleet_types::commands::ElementQuery;

use super::*;

/// Separated by bars.
const ACTING: &[&str] = &[
    // English
    "Pay now | BUY | Place order | Delete | Deleting… | Remove item | Send | Send message | Post | Publish",
    "Confirm | Confirm & pay | Check out | Checkout | Subscribe | Submit | payment | Purchased | Wire funds",
    "Sign contract | Sign | Sign & send | Book now | Book a table | Withdraw | Donate £5 | Cash out",
    "Close my account",
    // German
    "Jetzt kostenpflichtig bestellen | Zahlungspflichtig bestellen | Konto löschen | KONTO LÖSCHEN",
    "Konto loeschen | Jetzt kaufen | Überweisen | Ueberweisung ausführen | Vertrag unterschreiben | Absenden",
    "Abonnieren | Zimmer buchen | Kündigen | Akzeptieren | Ich stimme zu | Veröffentlichen | Bestätigen",
    "Jetzt spenden | Geld abheben | Auszahlung",
    // French
    "Acheter | Payer 12 € | Passer la commande | Supprimer mon compte | Envoyer | Publier | Valider",
    "J’accepte | Signer | Faire un virement | S'abonner | Réserver | Faire un don | Résilier | Retirer",
    // Spanish
    "Comprar ahora | Pagar | Realizar pedido | Eliminar cuenta | Enviar | Publicar | Confirmar | Acepto",
    "Firmar | Transferir | Suscribirse | Reservar | Donar | Retirar",
    // Italian
    "Acquista ora | Paga | Effettua l'ordine | Elimina account | Invia | Pubblica | Conferma | Accetto",
    "Firma | Bonifico | Abbonati | Prenota | Dona ora | Preleva",
    // Portuguese
    "Comprar | Pagar agora | Finalizar pedido | Excluir conta | Apagar | Enviar | Publicar | Confirmar",
    "Aceito | Assinar | Transferir | Subscrever | Reservar | Doação | Sacar",
    // Dutch
    "Nu kopen | Betalen | Bestelling plaatsen | Account verwijderen | Versturen | Publiceren | Bevestigen",
    "Akkoord | Ondertekenen | Overmaken | Abonneren | Reserveren | Doneer | Opzeggen",
    // Polish
    "Kup teraz | Zapłać | Zamawiam i płacę | Usuń konto | Wyślij | Opublikuj | Potwierdź | Akceptuję",
    "Podpisz | Przelej | Subskrybuj | Zarezerwuj | Wesprzyj | Wypłać",
    // Turkish
    "Satın al | SATIN AL | Öde | Siparişi tamamla | Hesabı sil | HESABI SİL | Gönder | Yayınla | Onayla",
    "Kabul et | İmzala | Havale yap | Abone ol | Rezervasyon yap | Bağış yap | Para çek",
    // Russian
    "Купить | Оплатить | Оформить заказ | Удалить аккаунт | Отправить | Опубликовать | Подтвердить | Принять",
    "Подписать | Перевести деньги | Подписаться | Забронировать | Пожертвовать | Вывести средства",
    // Japanese
    "購入する | 注文を確定する | お支払い | アカウントを削除 | 送信 | 公開する | 同意する | 署名する | 送金 | チャンネル登録 | 予約する | 寄付する | 出金 | 購 入",
    "ｱｯﾌﾟﾛｰﾄﾞ",
    // Chinese
    "立即购买 | 支付 | 提交订单 | 删除账户 | 刪除帳戶 | 发送 | 發佈 | 确认 | 同意 | 签署合同 | 转账 | 订阅 | 预订 | 捐款 | 提现",
];

/// Separated by bars.
const HARMLESS: &[&str] = &[
    // English
    "Next | Details | Posture | Payload | Menu | Address | Senders' guild | Back | Sign in",
    "Sign in with a key | Sign up | Sign out | Log in | Close | Books | Search | Help | Settings | Language",
    "Read more | Road signs | Continue | Add one | Home | PayPal | Add to basket | OK | Yes",
    "Wires and cables | Section #1 | Show all | Bookshop",
    // German
    "Anmelden | Einloggen | Abmelden | Registrieren | Weiter | Zurück | Menü | Suchen | Hilfe",
    "Einstellungen | Warenkorb | In den Warenkorb | Mehr erfahren | Kaufhaus | Schließen | Entfernung",
    "Wissen | Abbrechen | Konto",
    // French
    "Se connecter | Connexion | S'inscrire | Suivant | Continuer | Retour | Rechercher | Aide | Paramètres",
    "Publicité | Télécharger | En savoir plus | Panier | Réglages | Annuler",
    // Spanish
    "Iniciar sesión | Entrar | Menú | Siguiente | Continuar | Atrás | Buscar | Ayuda | Carrito",
    "Ordenar por precio | Publicidad | Más información | Cancelar",
    // Italian
    "Accedi | Avanti | Continua | Indietro | Cerca | Aiuto | Carrello | Pubblicità | Impostazioni",
    "Registrati | Annulla",
    // Portuguese
    "Iniciar sessão | Próximo | Voltar | Pesquisar | Ajuda | Carrinho | Configurações",
    // Dutch
    "Inloggen | Aanmelden | Volgende | Verder | Terug | Zoeken | Hulp | Winkelwagen | Instellingen | Deel 2",
    // Polish
    "Zaloguj się | Dalej | Wstecz | Szukaj | Pomoc | Koszyk | Ustawienia | Kontynuuj",
    // Turkish
    "Giriş yap | Oturum aç | Menü | İleri | Devam | Geri | Ara | Yardım | Sepet | Sepete ekle | Ayarlar",
    "İptal",
    // Russian
    "Войти | Вход | Меню | Далее | Продолжить | Назад | Поиск | Помощь | Корзина | Настройки",
    "Удалённая работа | Отмена",
    // Japanese
    "ログイン | サインイン | メニュー | 次へ | 続ける | 戻る | 検索 | ヘルプ | カートに入れる | 設定 | 在庫を確認 | 詳細 | キャンセル",
    // Chinese
    "登录 | 登入 | 菜单 | 下一步 | 继续 | 返回 | 搜索 | 帮助 | 购物车 | 加入购物车 | 设置 | 详情 | 确定 | 取消",
];

fn found(role: &str, name: &str, submits: bool, form_field: bool) -> Match {
    let text = String::new;
    let (role, name) = (role.to_owned(), name.to_owned());
    let (selector, description, fingerprint) = (text(), text(), text());
    Match {
        selector,
        description,
        role,
        name,
        text: text(),
        submits,
        form_field,
        checked: None,
        fingerprint,
        size: [0; 2],
    }
}

/// Contract: agents 19, 44.
#[test]
fn consequential_names_need_approval_in_each_language() {
    for name in ACTING.iter().flat_map(|names| names.split(" | ")) {
        assert!(is_consequential(name), "{name}");
    }
}

/// Contract: agents 44.
#[test]
fn harmless_names_need_no_approval_in_any_language() {
    for name in HARMLESS.iter().flat_map(|names| names.split(" | ")) {
        assert!(!is_consequential(name), "{name}");
    }
}

/// Contract: agents 44.
#[test]
fn disguised_names_need_approval() {
    for name in [
        "De\u{200b}lete",
        "De\u{ad}lete account",
        "D\u{2060}e\u{feff}l\u{200d}ete",
        "Ｄｅｌｅｔｅ",
        "𝐃𝐞𝐥𝐞𝐭𝐞",
        "ⓟⓐⓨ",
        "D e l e t e",
        "P.a.y",
        "D-E-L-E-T-E now",
        "Dеlеtе",
        "Раy",
        "ΡAY",
        "De1ete",
        "0rder",
        "ᴘᴀʏ",
        "Dele\u{301}te",
        "kau\u{200c}fen",
        "購\u{200b}入",
        "DELETE_ACCOUNT",
        "\u{202e}Pay\u{202c}",
        "buy\u{3164}",
    ] {
        assert!(is_consequential(name), "{name}");
    }
}

/// Contract: limits 5.
#[test]
fn long_names_are_judged_in_linear_time() {
    let begun = Instant::now();
    for letter in ["d", "a ", "\u{200b}", "購", "ﷺ", "kau ", "0a"] {
        assert!(!is_consequential(&letter.repeat(1_000_000 / letter.len())), "{letter}");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// Contract: agents 19, 44.
#[test]
fn no_role_exempts_an_element_and_any_text_of_it_counts() {
    let tap = Command::Tap { target: ElementQuery::Css("#a".to_owned()) };
    for role in [
        "tab",
        "heading",
        "textbox",
        "searchbox",
        "combobox",
        "listbox",
        "spinbutton",
        "slider",
        "img",
        "generic",
        "menuitem",
        "option",
    ] {
        assert!(submits(&tap, &found(role, "Delete account", false, false)), "{role}");
        assert!(
            submits(&Command::Press { key: "Space".to_owned() }, &found(role, "Delete account", false, false)),
            "{role}"
        );
        assert!(!submits(&tap, &found(role, "Next", false, false)), "{role}");
    }
    let named_otherwise = Match { text: "Close\nKonto löschen".to_owned(), ..found("button", "Next", false, false) };
    assert!(submits(&tap, &named_otherwise));
}

/// Contract: agents 19.
#[test]
fn submission_is_determined_by_the_page() {
    let target = ElementQuery::Css("#a".to_owned());
    let tap = Command::Tap { target: target.clone() };
    let typed = |value: &str| Command::Type { target: target.clone(), value: value.to_owned() };
    let press = |key: &str| Command::Press { key: key.to_owned() };
    assert!(submits(&tap, &found("button", "Next", true, false)));
    assert!(submits(&tap, &found("link", "Delete", false, false)));
    assert!(!submits(&tap, &found("button", "Next", false, false)));
    assert!(submits(&press("Enter"), &found("textbox", "Name", false, true)));
    assert!(submits(&press("\n"), &found("button", "Delete", false, false)));
    assert!(submits(&press("Control+Enter"), &found("textbox", "Name", false, true)));
    assert!(!submits(&press("Enter"), &found("textbox", "Notes", false, false)));
    assert!(submits(&press("Space"), &found("button", "Next", true, false)));
    assert!(!submits(&press("Tab"), &found("textbox", "Name", false, true)));
    assert!(submits(&typed("a\n"), &found("textbox", "Name", false, true)));
    assert!(!submits(&typed("a"), &found("textbox", "Send to", false, true)));
}
